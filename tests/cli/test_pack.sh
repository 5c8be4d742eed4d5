#!/usr/bin/env bash
# A pack stands for the data that it was made of: in run, learn and eval. One that is killed goes on; a damaged one is
# refused by the number of its record.
#
# usage: test_pack.sh RECOLLECT MAKE_IMAGES
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
recollect=$(realpath "$1") make_images=$(realpath "$2")
work=$(mktemp -d "${TMPDIR:-/tmp}/recollect-pack-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
. "$here/expect.sh"
"$make_images" procedural:10 train 0 4 400 png set

expect 2 "which data set?" pack --out no
expect 2 "where shall the pack go? --out FILE says it" pack set
expect 2 "option '--test-part' is '2', expected 0 to 1" pack set --out no --test-part 2
expect 2 "size" pack set --out no --size 0x
expect 0 "1280 images to train on and 320 to test with, of 4 classes, 16 x 16 pixels in colour" \
    pack set --out set.pack --size 16
expect 1 "is there already; remove it, or give another name" pack set --out set.pack --size 16

# ---- killed, and gone on with -----------------------------------------------------------------------------------------
"$recollect" pack set --out killed.pack --size 16 --threads 1 >/dev/null 2>&1 &
pid=$!
for ((i = 0; i < 500; i++)); do
    [ "$(stat -c %s killed.pack.part.log 2>/dev/null || echo 0)" -gt 16 ] && break
    sleep 0.005
done
kill -KILL $pid 2>/dev/null
wait $pid 2>/dev/null
[ -e killed.pack ] || expect 0 "of them were packed before" pack set --out killed.pack --size 16
cmp set.pack killed.pack || fail "a pack that was killed differs from one that was left alone"
[ -z "$(find . -name '*.part*')" ] || fail "left behind: $(find . -name '*.part*')"

# ---- in place of the data -----------------------------------------------------------------------------------------------
run=(run demo --method finetune,er --threads 1 --set task_sizes=2,2 --set batch=32 --set epochs=1 --set refine_epochs=0
    --set images_per_class=50 --set size=16 --set net_width=4)
expect 0 "accuracy" "${run[@]}" --data set --out from-set
expect 0 "accuracy" "${run[@]}" --data set.pack --out from-pack
# Decoded whenever they are read, the pictures are the same whatever the threads and the jobs, and with a stop on the way.
expect 0 "accuracy" "${run[@]}" --data set --decode stream --out stream
expect 0 "accuracy" "${run[@]}" --data set --decode stream --threads 3 --jobs 2 --stop-after 1 --out stream-3
expect 0 "accuracy" "${run[@]}" --data set --decode stream --threads 2 --resume --out stream-3
for method in finetune er; do
    cmp stream/$method/task-2.safetensors stream-3/$method/task-2.safetensors || fail "$method: threads change a stream"
    ! cmp -s stream/$method/task-2.safetensors from-set/$method/task-2.safetensors || fail "$method: no random windows"
done
# Such a run is analysed by decoding once more: the head has the accuracies of the run.
expect 0 '"head"' analyze ledger stream --method er --json --threads 1
heads=$(sed -nE 's/^ *"head": ([0-9.]+),?$/\1/p' out.txt)
found=$(sed -nE '/^  "accuracy": \[/,/\]/s/^ *([0-9.]+),?$/\1/p' stream/er/results.json)
[ -n "$heads" ] && paste <(echo "$heads") <(echo "$found") | awk '{ d = $1 - $2; if (d * d > 1e-18) exit 1 }' ||
    fail "the ledger of a stream has $heads, the run $found"
expect 0 "task 2: mean R" analyze gradient stream --method er --task 2 --threads 1
expect 1 "is of format pack, not of picture files" "${run[@]}" --data set.pack --decode stream --out no
for method in finetune er; do
    # the tensors: what comes before them says which data it was
    a=$(tail -c 4096 from-set/$method/task-2.safetensors | cksum) b=$(tail -c 4096 from-pack/$method/task-2.safetensors | cksum)
    [ "$a" = "$b" ] || fail "$method learns something else from the pack than from the set"
done
expect 1 "is a pack, whose test images stay as they are: the setting 'test_per_class'" "${run[@]}" --data set.pack \
    --out no --set test_per_class=3
expect 1 "made with exif true, and exif false is asked for" "${run[@]}" --data set.pack --set exif=false --out no
expect 0 "16 x 16 pixels" pack set --out unturned.pack --size 16 --exif false
expect 0 "4 classes" learn set.pack --out model.safetensors --epochs 1 --set net_width=4 --threads 1
expect 0 "320 images, 4 classes" eval model.safetensors set.pack
expect 1 "made with exif false, and exif true is asked for" eval model.safetensors unturned.pack

# ---- damage -------------------------------------------------------------------------------------------------------------
printf '\377' | dd of=set.pack bs=1 seek=$((4096 + 768 * 1300 + 5)) conv=notrunc 2>/dev/null
printf '\000' | dd of=set.pack bs=1 seek=$((4096 + 768 * 1300 + 6)) conv=notrunc 2>/dev/null
expect 1 "set.pack: record 1300 of the pack is damaged" eval model.safetensors set.pack
truncate -s 500000 killed.pack
expect 1 "killed.pack: the pack ends in record 645 of 1600" eval model.safetensors killed.pack
[ $failures -eq 0 ] && echo "passed"
exit $((failures > 0))
