#!/usr/bin/env bash
# A lesson that is killed or stopped at random moments and gone on with every time ends with the bits of one that was
# left alone. A checkpoint of another lesson is refused, none is lost silently, and a finished lesson leaves none.
#
# usage: test_resume.sh RECOLLECT MAKE_IMAGES [LIVES [SEED]]
set -uo pipefail
set -m # a job in the background then gets SIGINT as one in a terminal does
here=$(cd "$(dirname "$0")" && pwd)
recollect=$(realpath "$1") make_images=$(realpath "$2") lives=${3:-8} seed=${4:-$$}
echo "seed $seed"
RANDOM=$seed
work=$(mktemp -d "${TMPDIR:-/tmp}/recollect-resume-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
. "$here/expect.sh"
"$make_images" procedural:10 train 0 4 16 png first
"$make_images" procedural:10 train 4 6 16 png second
"$make_images" procedural:10 train 6 8 16 png other
tiny=(--threads 1 --set batch=16 --set inversion_steps=60 --epochs 40)
expect 0 "4 classes" learn first --out one.safetensors --size 16 --set net_width=4 --set generator_width=8 "${tiny[@]}"
[ ! -e one.safetensors.part ] || fail "a finished lesson left a checkpoint"
lesson=(learn one.safetensors second "${tiny[@]}")
began=$(date +%s%N)
expect 0 "6 classes" "${lesson[@]}" --out whole.safetensors
took=$((($(date +%s%N) - began) / 1000000))

# ---- killed (odd lives) or asked to stop (even ones), and gone on with -----------------------------------------------
saved=0 resumed=0
for ((life = 1; life <= lives; life++)); do
    "$recollect" "${lesson[@]}" --out killed.safetensors --checkpoint 0 --resume >/dev/null 2>err.txt &
    pid=$!
    sleep "$(awk -v t=$took -v r=$RANDOM 'BEGIN { printf "%.3f", t / 1000 * (0.1 + 0.4 * r / 32768) }')"
    if [ $((life % 2)) -eq 1 ]; then signal=KILL; else signal=INT; fi
    kill -$signal $pid 2>/dev/null
    code=0
    wait $pid 2>/dev/null || code=$?
    resumed=$((resumed + $(grep -c "^going on in" err.txt)))
    [ -e killed.safetensors.part ] && saved=$((saved + 1))
    case $code in
        0) # done by then: another one
            cmp -s killed.safetensors whole.safetensors || fail "after life $life: other bits"
            [ ! -e killed.safetensors.part ] || fail "a lesson that went on left its checkpoint"
            rm killed.safetensors ;;
        130)
            [ ! -e killed.safetensors.part ] || ! grep -q "holds .*, step" err.txt || grep -qF \
                "continue with: recollect learn one.safetensors second --out killed.safetensors --epochs 40" err.txt ||
                fail "no command to continue with: $(cat err.txt)" ;;
        137) ;;
        *) fail "SIG$signal: exit code $code: $(tail -n 2 err.txt)" ;;
    esac
done
expect 0 "6 classes" "${lesson[@]}" --out killed.safetensors --resume
cmp -s killed.safetensors whole.safetensors || fail "after $lives lives: other bits"
[ -z "$(find . -name '*part*' -o -name '*tmp*')" ] || fail "left over: $(find . -name '*part*' -o -name '*tmp*')"
[ $resumed -gt 0 ] || fail "no life went on from a checkpoint"
echo "$lives lives of a lesson of $took ms, $saved checkpoints left, $resumed lives went on from one"

# ---- whose checkpoint it is ------------------------------------------------------------------------------------------
for ((i = 0; i < 20; i++)); do # stopped in its midst
    "$recollect" "${lesson[@]}" --out x.safetensors --checkpoint 0 >/dev/null 2>err.txt &
    pid=$!
    for ((k = 0; k < 400; k++)); do [ -s x.safetensors.part ] && break; sleep 0.02; done
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
    [ ! -e x.safetensors.part ] || break
    rm -f x.safetensors
done
cp x.safetensors.part kept
expect 1 "'x.safetensors.part' is there, from a lesson that was stopped: --resume goes on with it" "${lesson[@]}" --out x.safetensors
expect 1 "another run, with other settings" "${lesson[@]}" --out x.safetensors --resume --set learning_rate=0.01
expect 1 "another run, with another seed (1, where this run has 7): go on with what it was begun with, or remove it, and its task begins anew" "${lesson[@]}" --out x.safetensors --resume --seed 7
expect 1 "with other data" learn one.safetensors other "${tiny[@]}" --out x.safetensors --resume
expect 1 "another method" "${lesson[@]}" --out x.safetensors --resume --method rdfcil
expect 1 "another model" learn whole.safetensors other "${tiny[@]}" --out x.safetensors --resume
for victim in $(find second -type f | sort | head -n 6); do # at most two of which are held out
    cp "$victim" before && cp "$(find other -type f | head -n 1)" "$victim"
    expect 1 "with other data" "${lesson[@]}" --out x.safetensors --resume
    cp before "$victim"
done
head -c 3000 kept >x.safetensors.part
expect 1 "x.safetensors.part" "${lesson[@]}" --out x.safetensors --resume
grep -q "remove it to begin the lesson anew" err.txt || fail "half a checkpoint: no way out: $(cat err.txt)"
sed 's/"step":"[0-9]*"/"step":"9999999"/' kept >x.safetensors.part
expect 1 "x.safetensors.part" "${lesson[@]}" --out x.safetensors --resume
cp kept x.safetensors.part
expect 0 "going on in" "${lesson[@]}" --out x.safetensors --resume --threads 2
cmp -s x.safetensors whole.safetensors || fail "with other threads: other bits"
expect 0 "there is no 'y.safetensors.part' to go on from" "${lesson[@]}" --out y.safetensors --resume
cmp -s y.safetensors whole.safetensors || fail "--resume without a checkpoint: other bits"
expect 2 "expected seconds from 0 to 86400" "${lesson[@]}" --out z.safetensors --checkpoint -1

# ---- a disk without room for it: a warning, and the lesson goes on ---------------------------------------------------
room=$(($(stat -c %s whole.safetensors) * 3 / 2 / 1024))
(ulimit -f $room && "$recollect" "${lesson[@]}" --out full.safetensors --checkpoint 0 >/dev/null 2>err.txt) ||
    fail "a full disk: exit code $?: $(tail -n 2 err.txt)"
[ "$(grep -c "^warning: no checkpoint could be written, and the lesson goes on without: " err.txt)" -eq 1 ] ||
    fail "a full disk: $(cat err.txt)"
cmp -s full.safetensors whole.safetensors || fail "a full disk: other bits"
[ $failures -eq 0 ] || exit 1
echo "test_resume: passed in $SECONDS s"
