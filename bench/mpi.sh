#!/usr/bin/env bash
# What two processes of one core each gain over one process of one core: ResNet-32 at 32 px, batches of 128, the stages of
# CwD's second task. Runs take turns; medians of the seconds per stage, and of the processor time of all processes.
#
# usage: bench/mpi.sh [RECOLLECT [ROUNDS [MPIRUN]]]
# Efficiency is seconds of one / (2 * seconds of two). Processor time counts what two do beyond one, and waiting, too.
set -euo pipefail
recollect=$(realpath "${1:-build/ci/bin/recollect}") rounds=${2:-5} mpirun=${3:-mpirun}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
task=(run cifar100-5 --data procedural:4 --set size=32 --set task_sizes=2,2 --set class_order=natural --method cwd
    --set images_per_class=128 --set test_per_class=4 --set epochs=3 --set refine_epochs=1 --set inversion_steps=6 --threads 1)
TIMEFORMAT='%U %S'
measure() { # COUNT ROUND: stage seconds of task 2, then processor seconds, a line
    local count=$1 out=of-$1-$2 spent
    case $count in
        1) spent=$({ time taskset -c 0 "$recollect" "${task[@]}" --out "$out" >/dev/null 2>&1; } 2>&1) ;;
        *) spent=$({ time "$mpirun" -n "$count" --bind-to core "$recollect" "${task[@]}" --out "$out" >/dev/null 2>&1; } 2>&1) ;;
    esac
    awk -F, -v spent="$spent" '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
        END {
            split(spent, s, " ")
            print $column["inversion_seconds"], $column["training_seconds"], $column["refinement_seconds"], s[1] + s[2]
        }' "$out/cwd/tasks.csv"
}
for ((round = 1; round <= rounds; round++)); do
    for count in 1 2; do measure $count $round >>"lines-$count"; done
done
median() { cut -d' ' -f"$2" "lines-$1" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
i=0
for what in inversion training refinement "processor time"; do
    i=$((i + 1))
    one=$(median 1 $i) two=$(median 2 $i)
    awk -v what="$what" -v one="$one" -v two="$two" 'BEGIN {
        gain = what == "processor time" ? one / two : one / (2 * two)
        printf "%-15s one process %7.2f s, two %7.2f s: efficiency %3.0f %%\n", what, one, two, 100 * gain
    }'
done
