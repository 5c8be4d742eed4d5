#!/usr/bin/env bash
# Ctrl-C at random moments, with images of 224 x 224 pixels, of which a step takes many seconds: the program ends with
# 130 within a second, and leaves nothing behind.
#
# usage: test_interrupt.sh RECOLLECT MAKE_IMAGES [TIMES [SEED]]
set -uo pipefail
set -m # a job in the background then gets SIGINT as one in a terminal does
recollect=$(realpath "$1") make_images=$(realpath "$2") times=${3:-1} seed=${4:-$$}
echo "seed $seed"
RANDOM=$seed
limit=1000 # milliseconds
work=$(mktemp -d "${TMPDIR:-/tmp}/recollect-interrupt-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0 late=0 all=0
fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}
milliseconds() { echo $(($(date +%s%N) / 1000000)); }

# interrupt NAME LEAST MOST COMMAND...: stops the command after so many milliseconds, chosen at random
interrupt() {
    local name=$1 least=$2 most=$3 after pid code=0 began took
    shift 3
    after=$((least + RANDOM * (most - least) / 32768))
    "$recollect" "$@" >out.txt 2>err.txt &
    pid=$!
    sleep "$(awk -v t=$after 'BEGIN { printf "%.3f", t / 1000 }')"
    began=$(milliseconds)
    kill -INT $pid 2>/dev/null || fail "$name was over after $after ms: $(tail -n 2 err.txt)"
    wait $pid || code=$?
    took=$(($(milliseconds) - began))
    echo "$name, after $after ms: $took ms: $(tail -n 1 err.txt)"
    all=$((all + 1))
    [ $took -le $limit ] || late=$((late + 1))
    # A busy machine may be late once; but a step takes much longer than this.
    [ $took -le $((3 * limit)) ] || fail "$name took $took ms to end"
    [ $code -eq 130 ] || fail "$name: exit code $code, expected 130: $(tail -n 3 err.txt)"
}

"$make_images" procedural:10 train 0 4 64 png photos
"$make_images" procedural:10 train 4 6 4 png few
"$make_images" procedural:10 train 4 6 64 png known
large=(--size 224 --net resnet18 --set min_steps=1)
"$recollect" learn few --out model.safetensors "${large[@]}" --set batch=4 --epochs 1 --set refine_epochs=0 \
    >/dev/null 2>err.txt || { cat err.txt; exit 1; }
rm -f err.txt
mkfifo silent && exec 3<>silent # a stdin that stays open and on which nothing comes
for ((i = 0; i < times; i++)); do
    interrupt learn 20 3000 learn photos --out new.safetensors "${large[@]}" --set batch=32
    rm -f new.safetensors.part # of a first lesson
    interrupt "learn more" 20 3000 learn model.safetensors photos --adapt all --out new.safetensors --set batch=32
    interrupt eval 20 1500 eval model.safetensors known
    interrupt predict 20 1500 predict model.safetensors photos
    interrupt "predict from stdin" 1500 2500 predict model.safetensors - <&3
    interrupt "predict a list" 1500 2500 predict model.safetensors --list - <&3
    interrupt dream 20 3000 dream model.safetensors --out dreams
    interrupt run 20 3000 run demo --data photos --out run --set size=224 --set net=resnet18 --set batch=32 --set task_sizes=2,2
    rm -rf run new.safetensors.part
done
[ $late -le 1 ] || fail "$late of $all took longer than $limit ms"
rm -f out.txt err.txt
left=$(find . -type f -not -path './photos/*' -not -path './few/*' -not -path './known/*' -not -name model.safetensors)
[ -z "$left" ] || fail "left over: $left"
[ $failures -eq 0 ] || exit 1
echo "test_interrupt: passed in $SECONDS s, $late of $all late"
