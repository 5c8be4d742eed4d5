#!/usr/bin/env bash
# Two processes under mpirun with the emulated GPU: through host memory where they share it, through NCCL (a stand-in)
# where each has one. Both ways give the same bits, whichever lane is ahead and however gradients are cut into buckets,
# and the losses of one process, which talks to itself. Four processes give the same bits with buckets and without. A
# process that is alone launches what it would without others. What goes wrong with NCCL is said, and the run goes through
# host memory; a GPU that fails ends all processes.
#
# usage: test_processes.sh PROGRAM MODULE NCCL MPIRUN    MPIRUN may be empty, then the test is skipped (code 77)
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=$(realpath "$1") mpirun=${4:-}
if [ -z "$mpirun" ]; then
    echo "skipped: this build has no MPI module; script/bootstrap --test installs what it takes"
    [ -z "${RECOLLECT_TEST_NO_SKIP:-}" ] || exit 1
    exit 77
fi
RECOLLECT_CUDA_MODULE=$(realpath "$2") RECOLLECT_NCCL_LIBRARY=$(realpath "$3")
export RECOLLECT_CUDA_MODULE RECOLLECT_NCCL_LIBRARY
work=$(mktemp -d "${TMPDIR:-/tmp}/recollect-processes-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
. "$here/../cli/mpi.sh"
failures=0
fail() { echo "test_processes: FAILED: $*" >&2; failures=$((failures + 1)); }

tiny=(run demo --data procedural:3 --set size=14 --set task_sizes=2,1 --set images_per_class=4 --method cwd --threads 1
    --set test_per_class=1 --set epochs=2 --set refine_epochs=1 --set batch=4 --set inversion_steps=1 --set net_width=4
    --set generator_width=8 --set noise=8 --backend cuda --precision fp32 --checkpoint 0)
several() { timeout 60 "$mpirun" -n "$1" "$program" "${tiny[@]}" "${@:2}" >out.txt 2>err.txt; }
two() { several 2 "$@"; }
same() { cmp -s "$1/cwd/task-2.safetensors" "$2/cwd/task-2.safetensors" || fail "$3"; }

alone() { timeout 60 "$program" "${tiny[@]}" --mpi on "$@" >out.txt 2>err.txt || fail "one process: $(cat err.txt)"; }
alone --out one
RECOLLECT_MPI_ALONE=talks RECOLLECT_EMULATED_COUNTS=counts alone --out itself
grep -qx 'left 0' counts || fail "a process that talks to itself leaves streams, events or blocks behind: $(cat counts)"
compare_losses one itself 10 1e-5 || fail "losses of a process that talks to itself are not those of one that does not"
RECOLLECT_EMULATED_CARDS=2 RECOLLECT_EMULATED_NCCL=broken two --out host || fail "through host memory: $(cat err.txt)"
grep -qF "talk through host memory: emulated error of NCCL" err.txt || fail "no word of NCCL: $(cat err.txt)"
compare_losses one host 10 1e-5 || fail "losses of two processes are not those of one"
each=("$program" "${tiny[@]}" --out nccl) # with other lanes ahead in each process
RECOLLECT_EMULATED_CARDS=2 RECOLLECT_BUCKET_BYTES=500 timeout 60 "$mpirun" \
    -n 1 -x RECOLLECT_EMULATED_LANES=first "${each[@]}" : \
    -n 1 -x RECOLLECT_EMULATED_LANES=last "${each[@]}" >out.txt 2>err.txt || fail "through NCCL: $(cat err.txt)"
! grep -qF "host memory" err.txt || fail "NCCL was not used: $(cat err.txt)"
same host nccl "NCCL and host memory, other lanes ahead, or buckets give other bits"
RECOLLECT_BUCKET_BYTES=500 RECOLLECT_EMULATED_LANES=last two --out shared || fail "buckets on one card: $(cat err.txt)"
same host shared "buckets on a card that two processes share give other bits"
for bytes in 0 500; do
    RECOLLECT_EMULATED_CARDS=4 RECOLLECT_BUCKET_BYTES=$bytes RECOLLECT_EMULATED_TALKS=talks-$bytes \
        several 4 --out "four-$bytes" || fail "four processes: $(cat err.txt)"
done
same four-0 four-500 "buckets of four processes give other bits"
[ "$(cat talks-500)" -gt "$(cat talks-0)" ] || fail "no buckets: $(cat talks-0) and $(cat talks-500) talks"
RECOLLECT_EMULATED_CARDS=2 RECOLLECT_EMULATED_NCCL=old RECOLLECT_EMULATED_LAUNCHES=named two --out old
grep -qF "talk through host memory: NCCL was not found, or is too old" err.txt || fail "no word of an old NCCL: $(cat err.txt)"
RECOLLECT_EMULATED_FAILURE=lost:1200 two --out lost && fail "a lost device ends well"
grep -qF "talk through host memory: processes share a GPU" err.txt || fail "no word of the card they share: $(cat err.txt)"
grep -qF "cudaErrorECCUncorrectable" err.txt || fail "no word of the lost device: $(cat err.txt)"
# What is named does not run, so the run ends with its first step.
for way in off on talks; do
    RECOLLECT_MPI_ALONE=$way RECOLLECT_EMULATED_LAUNCHES=$way timeout 60 "$program" "${tiny[@]}" --precision bf16 \
        --set size=32 --set net_width=16 --mpi "${way/talks/on}" --out "named-$way" >out.txt 2>err.txt
done
grep -q train_chain off || fail "no chain in training: $(cat err.txt)"
cmp off on || fail "a process that is alone launches other kernels because it is connected"
! grep -q train_chain talks || fail "a chain in training takes the statistics of a part"
[ $failures -eq 0 ] && echo "ok"
exit $((failures > 0))
