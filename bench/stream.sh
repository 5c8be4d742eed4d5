#!/usr/bin/env bash
# Images that a GPU has no room for, against the same run with room: the same bits, and how many images a second each way
# trains on. Then pictures that are decoded while it trains: the losses of the CPU, the same bits whatever the threads, and
# images a second beside those of a pack. All images are made up. Ends with 1 if anything is not equal.
#
#   pack      CwD's second task at 32 px (cifar100-5): on the device, and in the file because of --device-memory
#   stream    the first task of ResNet-18 at 224 px, batches of 64: JPEGs of 288 pixels, and a pack of them
#
# usage: bench/stream.sh [RECOLLECT [MAKE_IMAGES [PART...]]]    default: build/cuda/bin/recollect, make_images beside it, both
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
recollect=$(realpath "${1:-build/cuda/bin/recollect}") make_images=$(realpath "${2:-$(dirname "$recollect")/make_images}")
parts=("${@:3}")
[ ${#parts[@]} -gt 0 ] || parts=(pack stream)
classes=200 per_class=500 epochs=4 # of the pack; the last epoch refines the head
pictures=64 picture_epochs=12      # of each of ten classes
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
. "$here/../tests/cli/mpi.sh"
failures=0
fail() { echo "stream.sh: FAILED: $*" >&2; failures=$((failures + 1)); }
same() { cmp "$1" "$2" || fail "$3"; }
try() { timeout 120 "$@" >out.txt 2>err.txt; }
run() { try "$@" || { cat err.txt >&2; exit 1; }; }
rate() { # FOLDER IMAGES: images a second in the last task's training
    awk -F, -v images="$2" 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
        END { printf "%.0f", images / $column["training_seconds"] }' "$1/tasks.csv"
}

# ---- a pack ------------------------------------------------------------------------------------------------------------
pack() {
    run "$recollect" pack "procedural:$classes" --out set.pack --size 32
    half=$((classes / 2)) of_pack=$((classes / 2 * per_class * (epochs - 1)))
    held=("$recollect" run cifar100-5 --data set.pack --set format=pack --set size=32 --set task_sizes=$half,$half
        --set class_order=natural --method cwd --set epochs=$epochs --set refine_epochs=1 --set inversion_steps=20
        --backend cuda)
    for limit in 512 576 640 704 768 0; do # MiB: the least that has room for the steps
        [ $limit -gt 0 ] || { cat err.txt >&2; exit 1; }
        if try "${held[@]}" --device-memory ${limit}M --out brought; then break; fi
        rm -rf brought
    done
    grep 'images stay in their file' err.txt || fail "$limit MiB hold all images"
    run "${held[@]}" --out held
    ! grep 'images stay' err.txt || fail "the device holds no pack"
    for task in 1 2; do
        same held/cwd/task-$task.safetensors brought/cwd/task-$task.safetensors "a pack in its file, task $task: other bits"
    done
    echo "pack, 32 px: on the device $(rate held/cwd $of_pack) images/s, from the file within $limit MiB" \
        "$(rate brought/cwd $of_pack) images/s"
}

# ---- pictures ----------------------------------------------------------------------------------------------------------
stream() {
    mkdir photos
    "$make_images" procedural:10 train 0 10 $pictures jpg photos/train 0 288
    "$make_images" procedural:10 test 0 10 4 jpg photos/test 0 288
    tiny=("$recollect" run demo --data photos --set size=14 --set resize=16 --set task_sizes=8,2 --set images_per_class=8
        --method cwd --set epochs=2 --set refine_epochs=1 --set batch=4 --set inversion_steps=1 --set net_width=4
        --set generator_width=8 --set noise=8 --checkpoint 0 --decode stream)
    run "${tiny[@]}" --out cpu
    run "${tiny[@]}" --backend cuda --precision fp32 --out gpu
    compare_losses cpu gpu 10 1e-4 || fail "losses of a stream are not those of the CPU"

    run "$recollect" pack photos --out photos.pack --size 224 --resize 256
    large=("$recollect" run cifar100-5 --set net=resnet18 --set size=224 --set resize=256 --set batch=64 --set task_sizes=10
        --set class_order=natural --method finetune --set epochs=$picture_epochs --set refine_epochs=0 --backend cuda)
    of_pictures=$((10 * pictures * picture_epochs))
    run "${large[@]}" --data photos.pack --set format=pack --out packed
    run "${large[@]}" --data photos --set format=folder --decode stream --out stream
    run "${large[@]}" --data photos --set format=folder --decode stream --threads 5 --out fewer
    same stream/finetune/task-1.safetensors fewer/finetune/task-1.safetensors "a stream of other threads: other bits"
    echo "JPEGs, 224 px: a pack on the device $(rate packed/finetune $of_pictures) images/s, a stream" \
        "$(rate stream/finetune $of_pictures) images/s, with 5 threads $(rate fewer/finetune $of_pictures) images/s"
}

for part in "${parts[@]}"; do "$part"; done
[ $failures -eq 0 ] && echo "stream.sh: all equal"
exit $((failures > 0))
