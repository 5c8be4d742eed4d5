#!/usr/bin/env bash
# Lessons of the head alone: what is said, what stays as it was, what is refused.
#
# usage: test_adapt.sh RECOLLECT MAKE_IMAGES
set -uo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
recollect=$(realpath "$1") make_images=$(realpath "$2")
work=$(mktemp -d "${TMPDIR:-/tmp}/recollect-adapt-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
. "$here/expect.sh"

"$make_images" procedural:10 train 0 4 16 png first
"$make_images" procedural:10 train 4 6 16 png second
"$make_images" procedural:10 train 6 7 16 png third
"$make_images" procedural:10 test 0 4 8 png old
expect 0 "4 classes, 4 of them new" learn first --out one.safetensors --size 16 --set net_width=8 --epochs 8 --threads 1

# ---- two lessons in two processes; the second takes all rows that are there for old ones -------------------------------
expect 0 "6 classes, 2 of them new" learn one.safetensors second --out two.safetensors --adapt head --old-test old
grep -q "^Head: 2 new classes" err.txt || fail "the lesson is not called by its name: $(cat err.txt)"
grep -q "32 images of old classes: .* before .*, .* after" out.txt || fail "--old-test is not reported"
[ ! -e two.safetensors.part ] || fail "a lesson of the head keeps a checkpoint"
expect 0 '"adapt":"head"' learn two.safetensors third --out three.safetensors --adapt head --json
expect 0 '"epochs":0' learn two.safetensors third --out again.safetensors --adapt head --json --resume --threads 2
cmp -s three.safetensors again.safetensors || fail "another number of threads gives another model"
expect 0 "7 classes" learn two.safetensors third --out told.safetensors --adapt head --set lambda_ce=9 --set seed=1
[ "$(grep -c "changes nothing" err.txt)" -eq 1 ] || fail "what a head does not read is not said once: $(cat err.txt)"
grep -qF "warning: lambda_ce changes nothing in a lesson of the head alone; with --adapt as all it does" err.txt ||
    fail "a setting that a head does not read is not told: $(cat err.txt)"
expect 0 "7 class means" info three.safetensors
"$make_images" procedural:10 train 7 8 16 png fourth
expect 0 "8 classes, 1 of them new" learn three.safetensors fourth --out four.safetensors --epochs 3 --set inversion_steps=3
grep -q "^CwD+: 1 new class" err.txt || fail "a lesson of everything does not follow one of the head: $(cat err.txt)"
grep -q "^chosen: CwD+ in place of CwD" err.txt || fail "it does not say that it chose CwD+: $(cat err.txt)"
expect 0 "CwD+: CwD with class statistics that follow the net" info four.safetensors
expect 0 "1 of them new" learn three.safetensors fourth --out cwd.safetensors --epochs 3 --set inversion_steps=3 --method cwd
grep -q "^CwD: 1 new class" err.txt || fail "a method that was named is not taken: $(cat err.txt)"

# ---- refused ------------------------------------------------------------------------------------------------------------
expect 1 "a first model learns as a whole" learn first --out new.safetensors --adapt head --size 16
expect 2 "option '--adapt' is 'body', expected head|top|all" learn one.safetensors second --out new.safetensors --adapt body
: >new.safetensors.part
expect 1 "trains the whole net: with --adapt as all" learn one.safetensors second --out new.safetensors --adapt head --resume
[ -e new.safetensors.part ] || fail "the checkpoint of another lesson is gone"
[ ! -e new.safetensors ] || fail "something was written"

[ $failures -eq 0 ] || exit 1
echo "lessons of the head alone: all is well"
