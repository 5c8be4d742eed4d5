#!/usr/bin/env bash
# No training image is in what a data-free method leaves behind: models, checkpoints in the midst of every stage, logs
# and results. A picture that nothing else looks like is planted among the training images of both tasks, and all files
# are searched for it as bytes and as numbers of any kind (find_image.c); that the search finds what it looks for is shown
# first.
#
# usage: test_no_image.sh PROGRAM MAKE_IMAGES FIND_IMAGE
. "$(dirname "$0")/common.sh"
find_image=$3
"$find_image" make picture.ppm
for kind in $("$find_image" kinds); do
    "$find_image" plant "$kind" picture.ppm hidden
    ! "$find_image" search picture.ppm hidden >/dev/null || fail "the search does not find $kind"
done
for class in photos/*/; do
    for i in 1 2 3 4; do cp picture.ppm "$class/planted-$i.ppm"; done
done

searched=0
search() {
    local files
    mapfile -t files < <(find "$1" -type f)
    "$find_image" search picture.ppm "${files[@]}" || fail "$2: a training image is in the run folder"
    searched=$((searched + ${#files[@]}))
}
# The folder after every second step: checkpoints of every stage.
life --out left --checkpoint 0 >/dev/null 2>&1 &
pid=$!
seen=
while kill -0 $pid 2>/dev/null; do
    kill -STOP $pid 2>/dev/null || break
    now=$(position left | sed 's/ step [0-9]*//')
    if [ -e left/run.json ] && [[ $seen != *"$now"* ]]; then
        search left "$now"
        seen+="$now, "
    fi
    kill -CONT $pid 2>/dev/null || break
    sleep 0.03
done
wait $pid || fail "the run failed with code $?"
search left "at the end"
echo "searched $searched files: ${seen}at the end"

# It is in what ER leaves, which keeps images and says so: the model that the next process would go on from.
"$program" run small.yaml --method er,cwd --threads 1 --set buffer_size=1000 --out kept >table 2>/dev/null
for file in kept/er/task-1.safetensors kept/er/task-3.safetensors; do
    ! "$find_image" search picture.ppm "$file" >/dev/null || fail "the search does not find the image that $file keeps"
done
"$program" info kept/er/task-3.safetensors >info
grep -q '^kept of images .*; not data-free$' info || fail "info does not say that ER keeps images: $(cat info)"
"$program" info kept/er/task-3.safetensors --json | grep '"images":[1-9]' >/dev/null || fail "info counts no images of ER"
"$program" info left/cwd/task-3.safetensors --json | grep '"images":0,"other":0' >/dev/null || fail "info counts images of CwD"
grep -q '^ER .* of images$' table || fail "the table does not say what ER keeps: $(cat table)"
grep -q '^CwD .* of statistics$' table || fail "the table does not say what CwD keeps: $(cat table)"
grep -q '"data_free": *false' kept/er/results.json || fail "results.json calls ER data-free"
! grep -q '"data_free": *false' kept/cwd/results.json || fail "results.json does not call CwD data-free"

# The search would have found it: one row of floats in a copy of the last model does it.
"$find_image" plant floats-padded picture.ppm hidden
cat left/cwd/task-3.safetensors hidden >both
! "$find_image" search picture.ppm both >/dev/null || fail "the search does not find it in a model file"
echo "$name: passed in $SECONDS s"
