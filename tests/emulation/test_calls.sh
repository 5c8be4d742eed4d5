#!/usr/bin/env bash
# One call of CUDA's runtime fails, and those after it do not: reserving memory of device and host, launching, copying,
# streams, events, captures, graphs (MAY_FAIL in emulation.cpp). A command then ends with code 1, a message and nothing
# half done, and goes on to the bytes of one that was left alone; or it has done without, and has these bytes at once.
#
# usage: test_calls.sh PROGRAM MAKE_IMAGES MODULE [POINTS|all [SEED [COMMAND...]]]
#   POINTS: how many calls of each command fail (default: 4), drawn by the seed. PART, TRIED: ../trust/points.sh
set -euo pipefail
. "$(dirname "$0")/../trust/smallest.sh"
. "$(dirname "$0")/../trust/points.sh"
program=$(realpath "$1") make_images=$(realpath "$2") points=${4:-4} seed=${5:-$$}
RECOLLECT_CUDA_MODULE=$(realpath "$3")
export RECOLLECT_CUDA_MODULE
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
echo "test_calls: seed $seed"
RANDOM=$seed

"$make_images" procedural train 0 4 4 ppm photos
"$make_images" procedural train 4 5 4 ppm more
{ smallest 1; echo "min_steps: 1"; } >small.yaml
device=(--backend cuda --precision fp32 --threads 1)
{ echo "data: $work/photos"; echo "tasks: 2"; smallest 1; } >run.yaml
declare -A commands=(
    [run]="run $work/run.yaml --checkpoint 0 --out run --resume"
    [stream]="run $work/run.yaml --decode stream --checkpoint 0 --out run --resume"
    [learn]="learn $work/photos --preset $work/small.yaml --out new.safetensors"
    [predict]="predict $work/one.safetensors $work/photos"
    [dream]="dream $work/one.safetensors --steps 1 --per-class 1 --out dreams"
)
execute() { # COMMAND [FAILURE]
    (cd state && RECOLLECT_EMULATED_FAILURE=${2:-} RECOLLECT_EMULATED_COUNTS=../counts RECOLLECT_EMULATED_TOLD=../told \
        timeout 60 "$program" ${commands[$1]} "${device[@]}" >../out 2>../message)
}
# What a command leaves, without times: models and pictures.
made() { (cd "$1" && find . -name '*.safetensors' -o -name '*.png' -o -name '*.tmp-*' -o -name '*.part' | sort | xargs -r md5sum); }

violations=0
violated() {
    outcome=violation
    violations=$((violations + 1))
    echo "VIOLATION: $command, call $number ($(cat told 2>/dev/null)): $*"
}

try() { # one call fails
    local code=0
    rm -rf state told && mkdir state
    execute "$command" "call:$number" || code=$?
    case $code in
        0)
            outcome=unharmed
            [ "$(made state)" = "$expected" ] || violated "code 0, but it left $(made state | diff - <(echo "$expected"))"
            [ "$command" != predict ] || [ "$(<out)" = "$answers" ] || violated "code 0, but it said $(<out)"
            ;;
        1)
            outcome=refused
            [[ $(<message) == *recollect:\ * ]] || violated "no message: $(<message)"
            [ -z "$(find state -name '*.tmp-*')" ] || violated "half a file: $(find state -name '*.tmp-*')"
            [[ ${commands[$command]} == run\ * ]] || [ -z "$(made state)" ] || violated "half done: $(made state); $(<message)"
            execute "$command" || { violated "code $? when it is asked again: $(<message)"; return; }
            [ "$(made state)" = "$expected" ] || violated "then it left $(made state | diff - <(echo "$expected"))"
            ;;
        *) violated "code $code: $(<message)" ;;
    esac
}

sweep() { # COMMAND
    local command=$1 expected answers all number outcome unharmed=0 tried=0
    if all_tried "$command" || time_is_up; then return; fi
    rm -rf state && mkdir state
    execute "$command" || { echo "test_calls: FAILED: $command without a fault: $(<message)" >&2; exit 1; }
    expected=$(made state) answers=$(<out) all=$(sed -n 's/^calls //p' counts)
    if [ "$points" = all ]; then seq "$all"; else
        for ((i = 0; i < points; i++)); do echo $((1 + (RANDOM * 32768 + RANDOM) % all)); done
    fi >numbers
    outcome "$command" all "$(wc -l <numbers)"
    for number in $(to_try "$command" <numbers); do
        if time_is_up; then break; fi
        try
        outcome "$command" "$number" $outcome
        tried=$((tried + 1))
        if [ $outcome = unharmed ]; then unharmed=$((unharmed + 1)); fi
    done
    # Calls of the command, points that were tried, unharmed, refused.
    echo "figures: $command $all $tried $unharmed $((tried - unharmed))"
}

shift $(($# < 5 ? $# : 5))
if [ $# -eq 0 ]; then set -- run stream learn predict dream; fi
if [[ $* == *predict* || $* == *dream* ]]; then
    mkdir state
    execute learn || { echo "test_calls: FAILED: $(<message)" >&2; exit 1; }
    mv state/new.safetensors one.safetensors
fi
for command in "$@"; do sweep "$command"; done
[ $violations -eq 0 ] || { echo "test_calls: FAILED: $violations violations" >&2; exit 1; }
echo "test_calls: passed in $SECONDS s"
