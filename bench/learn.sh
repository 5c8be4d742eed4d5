#!/usr/bin/env bash
# How well `learn` does on folders of JPEGs: Fashion-MNIST in folders, a first model of six classes, then the other four in
# new processes, scored on held-out test images of all ten. The figures of docs/learn.md come from here.
#
# usage: bench/learn.sh [SCENARIO...]    scenarios: full few single few-single (default: all)
#   full        500 images a class, then two classes at a time     single      the same, one class at a time
#   few         20 images a class, then two classes at a time      few-single  the same, one class at a time
# THREADS (default: all cores) and METHODS (default: "chosen cwd finetune joint"; chosen: by learn itself) are read from the
# environment. Needs `script/build release recollect make_images` and Debian's dataset-fashion-mnist.
set -euo pipefail
cd "$(dirname "$0")/.."
recollect=$PWD/build/release/bin/recollect make_images=$PWD/build/release/bin/make_images
data=/usr/share/datasets/fashion-mnist
threads=${THREADS:-0} methods=${METHODS:-chosen cwd finetune joint}
[ -x "$make_images" ] || { echo "learn.sh: no $make_images; run script/build release recollect make_images first" >&2; exit 1; }
[ -d "$data" ] || { echo "learn.sh: no $data; install dataset-fashion-mnist" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

folders() { # folders NAME IMAGES: what each scenario learns from
    local part from to name
    [ ! -d "$1-first" ] || return 0
    "$make_images" "$data" train 0 6 "$2" jpg "$1-first"
    for part in "6 8 pair-1" "8 10 pair-2" "6 7 one-1" "7 8 one-2" "8 9 one-3" "9 10 one-4" "0 10 all"; do
        read -r from to name <<<"$part"
        "$make_images" "$data" train "$from" "$to" "$2" jpg "$1-$name"
    done
}
"$make_images" "$data" test 0 10 100 jpg test
accuracy() { "$recollect" eval "$1" test 2>/dev/null | awk '/^accuracy/ { print $2 }'; }
# learn ARGUMENTS...: trains, and prints the seconds that it took and those of the processors
learn() {
    local TIMEFORMAT='%R %U'
    { time "$recollect" learn "$@" --threads "$threads" >learn.log 2>&1; } 2>&1 |
        awk '{ printf "%.0f s (CPU: %.0f s)", $1, $2 }' || { tail -n 3 learn.log >&2; exit 1; }
}

for scenario in "${@:-full few single few-single}"; do
    for name in $scenario; do
        case $name in
            full) size=full images=500 parts="pair-1 pair-2" ;;
            few) size=few images=20 parts="pair-1 pair-2" ;;
            single) size=full images=500 parts="one-1 one-2 one-3 one-4" ;;
            few-single) size=few images=20 parts="one-1 one-2 one-3 one-4" ;;
            *) echo "learn.sh: unknown scenario '$name'" >&2; exit 2 ;;
        esac
        folders $size $images
        if [ ! -e "$size-first.safetensors" ]; then
            seconds=$(learn $size-first --out $size-first.safetensors)
            echo "$size: first model of 6 classes, $images images each: $(accuracy $size-first.safetensors) % in $seconds"
        fi
        for method in $methods; do
            if [ "$method" = joint ]; then
                took= # unless it is there already
                [ -e "$size-joint.safetensors" ] || took=" in $(learn $size-all --out $size-joint.safetensors)"
                echo "$name: joint, all ten classes at once: $(accuracy $size-joint.safetensors) %$took"
                continue
            fi
            model=$size-first.safetensors line= how=(--method "$method")
            [ "$method" != chosen ] || how=()
            for part in $parts; do
                next=$name-$method-$part.safetensors
                seconds=$(learn "$model" $size-$part --out "$next" "${how[@]}")
                model=$next line+=" $(accuracy "$next") % in $seconds;"
            done
            echo "$name: $method:$line"
        done
    done
done
