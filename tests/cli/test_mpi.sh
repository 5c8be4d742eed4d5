#!/usr/bin/env bash
# A run in several processes under mpirun: losses of every stage and accuracies are those of one process, the bits are
# the same every time, however gradients are cut into buckets, and one process alone writes. A process that is killed
# ends all of them, and the run goes on with another number of processes.
#
# usage: test_mpi.sh PART RECOLLECT MPIRUN
#   PART: equal (2 and 4 processes against one), killed, usage; MPIRUN may be empty, then the test is skipped (code 77)
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
part=$1 recollect=$(realpath "$2") mpirun=${3:-}
if [ -z "$mpirun" ]; then
    echo "skipped: this build has no MPI module; script/bootstrap --test installs what it takes"
    [ -z "${RECOLLECT_TEST_NO_SKIP:-}" ] || exit 1
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/recollect-mpi-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
. "$here/expect.sh"
. "$here/mpi.sh"
tiny=(run demo --data procedural:6 --set size=16 --set task_sizes=4,2 --set images_per_class=12 --method cwd --threads 1
    --set test_per_class=20 --set epochs=2 --set refine_epochs=1 --set batch=16 --set inversion_steps=8 --set net_width=4
    --set generator_width=8)
# processes COUNT ARGUMENTS...: what it prints goes to out.txt and err.txt
processes() {
    local count=$1
    shift
    timeout 60 "$mpirun" -n "$count" "$recollect" "$@" >out.txt 2>err.txt
}
# ---- the numbers of one process --------------------------------------------------------------------------------------
equal() {
    expect 0 "accuracy" "${tiny[@]}" --checkpoint 0 --out one
    losses one >stages.txt
    for stage in training inversion refinement; do
        grep -q " $stage " stages.txt || fail "no loss of $stage was logged: $(head -n 3 stages.txt)"
    done
    for count in 2 4; do
        processes $count "${tiny[@]}" --checkpoint 0 --out "of-$count" || fail "$count processes: $(tail -n 3 err.txt)"
        grep -qF "$count processes work together" err.txt || fail "$count processes did not work together"
        [ "$(grep -c '^CwD ' out.txt)" -eq 1 ] || fail "not one process alone printed: $(cat out.txt)"
        compare_losses one "of-$count" 40 1e-4 || fail "losses of $count processes are not those of one"
        RECOLLECT_BUCKET_BYTES=2000 processes $count "${tiny[@]}" --out "cut-$count" || fail "buckets: $(tail -n 3 err.txt)"
        cmp -s "of-$count/cwd/task-2.safetensors" "cut-$count/cwd/task-2.safetensors" ||
            fail "$count processes: gradients in many buckets give other bits"
        for name in cwd/classes.csv cwd/confusion.csv; do
            cmp -s "one/$name" "of-$count/$name" || fail "$count processes: $name differs"
        done
    done
    processes 2 "${tiny[@]}" --out again || fail "a second time: $(tail -n 3 err.txt)"
    cmp -s of-2/cwd/task-2.safetensors again/cwd/task-2.safetensors || fail "the same number of processes, other bits"
}

# ---- a process dies --------------------------------------------------------------------------------------------------
killed() {
    local began code=0 waited=0
    long=("${tiny[@]}" --set epochs=4000 --checkpoint 0.1)
    "$mpirun" -n 3 "$recollect" "${long[@]}" --set batch=15 --out dies >out.txt 2>err.txt &
    local starter=$!
    until [ -e dies/first-task/checkpoint.safetensors ] || [ $((waited++)) -gt 400 ]; do sleep 0.05; done
    local followers
    followers=$(pgrep -P "$starter" | tail -n 1)
    began=$(date +%s)
    kill -9 "$followers"
    wait $starter || code=$?
    [ $code -ne 0 ] || fail "a process was killed, and the job says nothing"
    [ $(($(date +%s) - began)) -le 10 ] || fail "after a process was killed the others went on for more than 10 s"
    grep -qi "signal 9\|killed" err.txt || fail "nobody says that a process was killed: $(cat err.txt)"
    ! pgrep -f "$work.*dies|--out dies" >/dev/null || fail "a process is left"
    # On with two, then with one, to the same end as one process alone.
    expect 0 "accuracy" "${tiny[@]}" --out whole
    processes 2 "${tiny[@]}" --stop-after 1 --out moves || fail "the first task: $(tail -n 3 err.txt)"
    processes 4 "${tiny[@]}" --resume --out moves || fail "another number of processes: $(tail -n 3 err.txt)"
    cmp -s whole/cwd/classes.csv moves/cwd/classes.csv || fail "2, then 4 processes have other accuracies than one"
    # The checkpoint of the killed one is intact: five processes take it up. Asked to stop, they save.
    local size
    size=$(wc -c <dies/first-task/events.jsonl) waited=0 code=0
    "$mpirun" -n 5 "$recollect" "${long[@]}" --set batch=15 --resume --out dies >out.txt 2>err.txt &
    starter=$!
    until [ "$(wc -c <dies/first-task/events.jsonl)" -gt $((size + 2000)) ] || [ $((waited++)) -gt 400 ]; do sleep 0.05; done
    kill -USR1 $starter
    wait $starter || code=$?
    [ $code -eq 130 ] || fail "asked to stop, the job ends with code $code: $(tail -n 3 err.txt)"
    grep -q "stopped and saved" err.txt || fail "what was killed does not go on: $(tail -n 3 err.txt)"
}

# ---- what does not fit -----------------------------------------------------------------------------------------------
usage() {
    processes 3 "${tiny[@]}" --out thirds && fail "a batch of 16 was shared by 3 processes"
    grep -qF "'batch' is 16, which 3 processes cannot share" err.txt || fail "no word of the batch: $(cat err.txt)"
    [ ! -e thirds ] || fail "what could not begin left a folder"
    processes 2 "${tiny[@]}" --set batch=10 --set mixup=1 --out odd && fail "pairs of 5 images were mixed"
    grep -qF "choose a batch that 4 divides" err.txt || fail "no word of the pairs: $(cat err.txt)"
    OMPI_COMM_WORLD_SIZE=2 RECOLLECT_MPI_MODULE=/nowhere expect 1 "started as one of 2: RECOLLECT_MPI_MODULE" \
        "${tiny[@]}" --out missing
    OMPI_COMM_WORLD_SIZE=2 RECOLLECT_MPI_MODULE=/nowhere expect 0 "accuracy" "${tiny[@]}" --stop-after 1 --mpi off --out alone
    processes 2 "${tiny[@]}" --set learning_rate=100 --set epochs=20 --out diverges && fail "a run that diverges ended well"
    [ "$(grep -c 'loss is' err.txt)" -eq 1 ] || fail "not one message of the run that diverges: $(cat err.txt)"
}

"$part"
[ $failures -eq 0 ] && echo "ok"
exit $((failures > 0))
