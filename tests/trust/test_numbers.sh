#!/usr/bin/env bash
# A loss that is not finite stops the run with stage, step and term, code 1, and keeps the last good checkpoint and every
# finished task; resumed, it says the same again. Two processes do not work on one run.
#
# usage: test_numbers.sh PROGRAM MAKE_IMAGES
. "$(dirname "$0")/common.sh"

save=(--checkpoint 0)
# diverges WHAT PATTERN FOLDER ARGUMENT...: fails with code 1 and the message.
diverges() {
    local what=$1 pattern=$2 out=$3 code=0
    shift 3
    "$program" run small.yaml --method cwd --threads 1 --out "$out" "${save[@]}" "$@" >/dev/null 2>message || code=$?
    [ $code -eq 1 ] || fail "$what: code $code, expected 1: $(cat message)"
    grep -qE -- "$pattern" message || fail "$what: the message lacks '$pattern': $(cat message)"
}

absurd=(--set learning_rate=100 --set weight_decay=1 --set epochs=30)
finite='is (nan|-nan|inf|-inf)\..*intact; a lower learning.rate may help'
diverges "an absurd learning rate" \
    "task 1, training, step [0-9]+ of 58: (the cross entropy loss|number [0-9]+ of [a-z._]+) $finite" first "${absurd[@]}"
[ ! -e first/cwd ] || fail "an absurd learning rate: the first task counts as finished"
checkpoint=first/first-task/checkpoint.safetensors
[ -s $checkpoint ] || fail "an absurd learning rate: no checkpoint is left"
tail -n 1 first/first-task/events.jsonl | grep -qE '"event":"end".*"status":"failed","message":"task 1, training' ||
    fail "an absurd learning rate: the log does not end with it: $(tail -n 1 first/first-task/events.jsonl)"
before=$(md5sum <$checkpoint)
good=$(position first)
diverges "resumed" "$finite" first --resume "${absurd[@]}"
[ "$(md5sum <$checkpoint)" = "$before" ] || fail "resumed: the last good checkpoint was replaced"
echo "an absurd learning rate: the checkpoint is of$good"
save=()
# Without checkpoints in between it is the loss that tells.
diverges "an absurd learning rate, unsaved" "task 1, training, step [0-9]+ of 58: the cross entropy loss $finite" unsaved \
    "${absurd[@]}"
save=(--checkpoint 0)

# Later stages: the finished task stays, and what was saved is finite.
diverges "an absurd weight of distillation" 'task 2, training, step [0-9]+ of [0-9]+: .* is (nan|-nan|inf|-inf)' second \
    --set lambda_hkd=1000000 --set learning_rate=10 --set epochs=12
diverges "an absurd rate of refinement" 'task 2, refinement, step [0-9]+ of [0-9]+: .* is (nan|-nan|inf|-inf)' third \
    --set refine_rate=100 --set weight_decay=1 --set learning_rate=0.000001 --set epochs=40 --set refine_epochs=38
for folder in second third; do
    [ -s $folder/cwd/task-1.safetensors ] && [ -s $folder/cwd/results.json ] || fail "$folder: the first task is lost"
    [ ! -e $folder/cwd/task-2.safetensors ] || fail "$folder: the second task counts as finished"
    echo "the checkpoint of the $folder is of$(position $folder/cwd)"
done

# One run, one process.
life --out busy --checkpoint 0 --set inversion_steps=400 >/dev/null 2>&1 &
pid=$!
for ((i = 0; i < 2000; i++)); do [ -e busy/run.json ] && break; sleep 0.05; done
sleep 0.2
code=0
run --out busy --resume --set inversion_steps=400 >/dev/null 2>message || code=$?
kill -9 $pid
wait $pid 2>/dev/null || true
[ $code -eq 1 ] && grep -q 'another process is working on the run in busy' message ||
    fail "two processes in one run: code $code: $(cat message)"
# Nor when several begin it at the same moment: one gets the folder, the others are told so.
for ((round = 0; round < 4; round++)); do
    pids=() won=0 begin=(--out "race$round" --stop-after 1)
    [ $round -lt 2 ] || begin+=(--resume)
    for ((i = 0; i < 4; i++)); do
        life "${begin[@]}" >/dev/null 2>"message$i" &
        pids+=($!)
    done
    for ((i = 0; i < 4; i++)); do
        code=0
        wait "${pids[i]}" || code=$?
        [ $code -eq 0 ] && won=$((won + 1)) && continue
        [ $code -eq 1 ] && grep -qE 'holds a run already|another process is working' "message$i" ||
            fail "four processes begin one run: code $code: $(cat "message$i")"
    done
    [ $won -ge 1 ] && { [ $won -eq 1 ] || [ $round -ge 2 ]; } || fail "$won of four processes got the folder"
    [ "$(grep -c '"event":"run"' "race$round/first-task/events.jsonl")" -eq 1 ] || fail "two processes worked on one run"
done
echo "$name: passed in $SECONDS s"
