#!/usr/bin/env bash
# recollect run from outside: results and files, a folder is never overwritten, an interrupted or killed run goes on and
# ends with the same bits, and no training image is in what it leaves behind.
# usage: test_run.sh PROGRAM [KILLS]
set -euo pipefail
program=$(realpath "$1") kills=${2:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "test_run: $*" >&2; exit 1; }

cat >small.yaml <<YAML
data: procedural
tasks: 4
images_per_class: 96
net: resnet-small
net_width: 8
generator: generator-small
generator_width: 8
noise: 32
batch: 32
epochs: 3
refine_epochs: 1
milestone: [1]
inversion_steps: 30
YAML
run=("$program" run small.yaml --threads 2 --stop-after 2)

"${run[@]}" --out whole --method finetune,cwd >whole.txt 2>/dev/null
grep -q '^CwD' whole.txt || fail "no row for CwD in the table"
for file in run.json config.yaml cwd/results.json cwd/tasks.csv cwd/confusion.csv cwd/events.jsonl \
    cwd/task-1.safetensors cwd/task-2.safetensors finetune/task-2.safetensors; do
    [ -s "whole/$file" ] || fail "$file is missing"
done
[ ! -e whole/cwd/checkpoint.safetensors ] || fail "a finished run left a checkpoint"
grep -q '"last_accuracy"' whole/cwd/results.json && grep -q '"mean_accuracy"' whole/cwd/results.json ||
    fail "last and mean accuracy are not named"

# A folder with a run in it is left alone.
code=0
"${run[@]}" --out whole 2>message.txt || code=$?
[ $code -eq 1 ] && grep -q -- --resume message.txt || fail "an existing run was not refused (code $code)"

# The effective configuration loads again and is the same.
"$program" run small.yaml --print-config >once.yaml
"$program" run once.yaml --print-config >twice.yaml
cmp -s once.yaml twice.yaml || fail "the printed configuration does not load as itself"

# Killed again and again, then finished: the same bits. Each life is longer than a start and shorter than the run.
began=$(date +%s%N)
"${run[@]}" --out again --method cwd >/dev/null 2>&1
took=$((($(date +%s%N) - began) / 1000000))
cmp -s whole/cwd/task-2.safetensors again/cwd/task-2.safetensors || fail "two runs differ"
lives=0
for ((i = 0; i < 100 && lives < kills; i++)); do
    "${run[@]}" --out killed --method cwd --resume --checkpoint 1 >/dev/null 2>&1 &
    pid=$!
    sleep "$(awk -v t="$took" -v r="$RANDOM" 'BEGIN { print t / 1000 * (0.25 + 0.7 * r / 32768) }')"
    kill -9 $pid 2>/dev/null || { wait $pid || true; break; }
    wait $pid 2>/dev/null || true
    lives=$((lives + 1))
done
"${run[@]}" --out killed --method cwd --resume >/dev/null 2>&1
cmp -s whole/cwd/task-2.safetensors killed/cwd/task-2.safetensors || fail "a run killed $lives times ended differently"

# Interrupted: saved, exit 130, and goes on.
"${run[@]}" --out stopped --method cwd >/dev/null 2>&1 &
pid=$!
sleep "$(awk -v t="$took" 'BEGIN { print t / 2000 }')"
kill -INT $pid
code=0
wait $pid || code=$?
if [ $code -ne 0 ]; then
    [ $code -eq 130 ] || fail "an interrupted run ended with code $code"
    "${run[@]}" --out stopped --method cwd --resume >/dev/null 2>&1
fi
cmp -s whole/cwd/task-2.safetensors stopped/cwd/task-2.safetensors || fail "an interrupted run ended differently"

# Another seed is another run: its checkpoint or model is not mixed up with this one.
"${run[@]}" --out other --method cwd --seed 2 >/dev/null 2>&1
! cmp -s whole/cwd/task-2.safetensors other/cwd/task-2.safetensors || fail "the seed changes nothing"

# Usage: wrong settings, methods and presets are exit code 2 with the nearest name.
code=0
"$program" run small.yaml --set epoch=3 2>message.txt || code=$?
[ $code -eq 2 ] && grep -q "'epochs'" message.txt || fail "a mistyped setting: code $code"
code=0
"$program" run small.yaml --out x --method cvd 2>message.txt || code=$?
[ $code -eq 2 ] && grep -q cwd message.txt || fail "a mistyped method: code $code"
echo "killed $lives times"
