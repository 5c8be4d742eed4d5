#!/usr/bin/env bash
# What it costs a process with a GPU to talk to itself as to others, in the captured step: --mpi on against --mpi off, in
# turns, medians of the seconds of the stages of CwD's second task. ResNet-32 at 32 px, batches of 128 (cifar100-5), or
# ResNet-18 at 224 px, batches of 64.
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
for ((round = 1; round <= rounds; round++)); do
    for way in off on; do
        "$recollect" "${task[@]}" --mpi $way --out "$way-$round" >/dev/null 2>"$way.log" || { cat "$way.log" >&2; exit 1; }
        awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
            END { print $column["inversion_seconds"], $column["training_seconds"], $column["refinement_seconds"] }' \
            "$way-$round/cwd/tasks.csv" >>"lines-$way"
    done
done
grep -h "talk through" on.log || echo "through NCCL"
median() { cut -d' ' -f"$2" "lines-$1" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
i=0
for stage in inversion training refinement; do
    i=$((i + 1))
    awk -v stage=$stage -v off="$(median off $i)" -v on="$(median on $i)" \
        'BEGIN { printf "%-10s off %7.3f s, on %7.3f s: %+.1f %%\n", stage, off, on, 100 * (on / off - 1) }'
done
