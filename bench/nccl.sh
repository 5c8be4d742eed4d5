#!/usr/bin/env bash
# What it costs a process with a GPU to be one of several, in the captured step, as far as one process can show it. Three
# ways, in turns; medians of the seconds of the stages of CwD's second task. ResNet-32 at 32 px, batches of 128
# (cifar100-5), or ResNet-18 at 224 px, batches of 64.
#
#   off      --mpi off
#   on       --mpi on: connected through NCCL, gradients through sum_workers. What a process sends to itself does not travel
#   talks    the same with RECOLLECT_MPI_ALONE=talks: it makes every other exchange of a step, too, with itself, and
#            computes what several processes compute. What is left out is the way between cards
#
# usage: bench/nccl.sh [RECOLLECT [ROUNDS [32|224]]]    RECOLLECT_NCCL_LIBRARY=none: through host memory
set -euo pipefail
recollect=$(realpath "${1:-build/cuda/bin/recollect}") rounds=${2:-3} size=${3:-32}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
task=(run cifar100-5 --data procedural:10 --set size="$size" --set task_sizes=5,5 --set class_order=natural --method cwd
    --set test_per_class=4 --backend cuda)
case $size in
    32) task+=(--set images_per_class=500 --set epochs=40 --set refine_epochs=10 --set inversion_steps=400) ;;
    *) task+=(--set net=resnet18 --set images_per_class=128 --set batch=64 --set epochs=6 --set refine_epochs=2
        --set inversion_steps=20) ;;
esac
measure() { # WAY ROUND: seconds of the stages, a line
    local mpi=on alone=
    case $1 in
        off) mpi=off ;;
        talks) alone=talks ;;
    esac
    RECOLLECT_MPI_ALONE=$alone timeout 120 "$recollect" "${task[@]}" --mpi $mpi --out "$1-$2" >/dev/null 2>"$1.log" ||
        { cat "$1.log" >&2; exit 1; }
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
        END { print $column["inversion_seconds"], $column["training_seconds"], $column["refinement_seconds"] }' \
        "$1-$2/cwd/tasks.csv" >>"lines-$1"
}
for ((round = 1; round <= rounds; round++)); do
    for way in off on talks; do measure $way $round; done
done
grep -h "talk through" on.log || echo "through NCCL"
cmp off-1/cwd/task-2.safetensors on-1/cwd/task-2.safetensors && echo "off and on: the same bits"
median() { cut -d' ' -f"$2" "lines-$1" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
i=0
for stage in inversion training refinement; do
    i=$((i + 1))
    awk -v stage=$stage -v off="$(median off $i)" -v on="$(median on $i)" -v talks="$(median talks $i)" 'BEGIN {
        printf "%-10s off %7.3f s, on %7.3f s: %+.1f %%, talks %7.3f s: %+.1f %%\n", stage, off, on,
            100 * (on / off - 1), talks, 100 * (talks / off - 1)
    }'
done
