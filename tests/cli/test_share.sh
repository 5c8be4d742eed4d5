#!/usr/bin/env bash
# Several processes in one folder share the cells out: every cell is trained once, one that dies is stepped in for, and
# what they leave is what one process leaves.
#
# usage: test_share.sh RECOLLECT
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
recollect=$(realpath "$1")
work=$(mktemp -d "${TMPDIR:-/tmp}/recollect-share-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
. "$here/expect.sh"
grid=(run demo --data procedural:10 --method finetune,lwf --orders 0,1 --threads 1 --jobs 1 --set batch=32
    --set images_per_class=8 --set epochs=2 --set refine_epochs=0 --set test_per_class=4 --set class_order=seed --set task_sizes=5,5)
same() { # same FOLDER: its models are those of one process
    local model
    for model in one/order-*/*/task-*.safetensors; do
        cmp -s "$model" "$1/${model#one/}" || fail "$1/${model#one/} differs from what one process leaves"
    done
    [ -z "$(find "$1" -name '*.lease*')" ] || fail "leases are left: $(find "$1" -name '*.lease*')"
    diff <(cut -d, -f1-6 one/summary.csv) <(cut -d, -f1-6 "$1/summary.csv") || fail "$1 has another summary"
}
expect 0 "order 1" "${grid[@]}" --out one
expect 2 "option '--lease' is '0', expected seconds from 1 to 86400" "${grid[@]}" --out no --share --lease 0

# ---- two at once: each cell is done by one of them -------------------------------------------------------------------
"$recollect" "${grid[@]}" --out two --share --lease 5 >first.txt 2>&1 &
first=$!
expect 0 "order 1" "${grid[@]}" --out two --share --lease 5
wait $first || fail "the first of two failed: $(tail -n 3 first.txt)"
same two
cells=$(cat first.txt out.txt | grep -c "task 2 of 2: accuracy")
[ "$cells" -eq 4 ] || fail "$cells cells were run to their end, expected 4, each once"

# ---- one is killed while it has a cell --------------------------------------------------------------------------------
caught= # on a busy machine the kill may come between two cells, or after the last: then the process begins anew
for ((try = 0; try < 10 && ${#caught} == 0; try++)); do
    rm -rf killed
    "$recollect" "${grid[@]}" --out killed --share --lease 1 >first.txt 2>&1 &
    first=$!
    for ((i = 0; i < 200; i++)); do
        [ -n "$(find killed -name '*.lease' 2>/dev/null)" ] && break
        sleep 0.01
    done
    kill -KILL $first
    wait $first 2>/dev/null
    caught=$(find killed -name '*.lease')
done
[ -n "$caught" ] || fail "the killed process left no lease: it was not caught at work"
expect 0 "order 1" "${grid[@]}" --out killed --share --lease 1
same killed

# ---- parts: one after the other, and the last one sums up ------------------------------------------------------------
expect 2 "--shard is for --share" "${grid[@]}" --out no --shard 1/2
expect 2 "option '--shard' is '3/2', expected K/N" "${grid[@]}" --out no --share --shard 3/2
expect 2 "option '--shard' is 'slurm', expected K/N" "${grid[@]}" --out no --share --shard slurm
expect 0 "accuracy" "${grid[@]}" --out parts --share --shard 1/2
[ -z "$(find parts/order-1 -name 'task-*.safetensors')" ] || fail "part 1 of 2 has run order 1, too"
export SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_MIN=6 SLURM_ARRAY_TASK_COUNT=2
expect 0 "accuracy" "${grid[@]}" --out parts --share --shard slurm
[ "$(grep -c "task 2 of 2: accuracy" out.txt)" -eq 2 ] || fail "part 2 of 2 has run more than its order"
same parts

# ---- lists of their own: whoever ends last sums up all of them --------------------------------------------------------
"$recollect" "${grid[@]}" --orders 1 --out lists --share --lease 5 >first.txt 2>&1 &
first=$!
expect 0 "accuracy" "${grid[@]}" --orders 0 --out lists --share --lease 5
wait $first || fail "the first of two lists failed: $(tail -n 3 first.txt)"
same lists
mkdir -p lists/order-7 lists/order-8x lists/order-01
cp lists/order-1/run.json lists/order-01
sed 's/"epochs": "2"/"epochs": "3"/' lists/order-1/run.json >lists/order-7/run.json
expect 0 "order 1" "${grid[@]}" --out lists --share
same lists
[ "$(grep -c order lists/summary.json)" -eq "$(grep -c order one/summary.json)" ] || fail "folders of other runs are summed up"

# ---- who does not share does not join ---------------------------------------------------------------------------------
"$recollect" "${grid[@]}" --out apart --share --set epochs=500 >first.txt 2>&1 &
first=$!
for ((i = 0; i < 200; i++)); do
    [ -n "$(find apart -name '*.lease' 2>/dev/null)" ] && break
    sleep 0.01
done
expect 1 "another process is working on the run in" "${grid[@]}" --out apart --resume --set epochs=500
kill -KILL $first
wait $first 2>/dev/null
[ $failures -eq 0 ] && echo "passed"
exit $((failures > 0))
