#!/usr/bin/env bash
# Killed at random moments and resumed every time, a run ends with the bits of a run that was left alone: KILLS times by
# the clock, and at numbered operations on files (a checkpoint half written, synced but not renamed, results written but
# the checkpoint not yet removed, ...). So does a grid of methods and class orders side by side. A signal that asks saves
# first.
#
# usage: test_kill.sh PROGRAM MAKE_IMAGES FAULT_LIBRARY [KILLS [FILE_OPERATIONS [SEED]]]
#   KILL_PARTS: which of its parts run, of "clock files grid signals methods lesson jumps copied two deleted" (default:
#   the first four; script/torture takes all)
. "$(dirname "$0")/common.sh"
fault=$3 kills=${4:-8} operations=${5:-5} seed=${6:-$$}
echo "$name: seed $seed"
RANDOM=$seed

# ---- by the clock: lives of a random length, most of them shorter than what is left to do --------------------------
kill_by_the_clock() {
    local lives=0 runs=0 where= pid
    while [ $lives -lt "$kills" ]; do
        life --out killed --resume --checkpoint 0 >/dev/null 2>&1 &
        pid=$!
        sleep "$(awk -v t="$took" -v r=$RANDOM 'BEGIN { printf "%.3f", t / 1000 * (0.1 + 0.5 * r / 32768) }')"
        if kill -9 $pid 2>/dev/null; then
            wait $pid 2>/dev/null || true
            lives=$((lives + 1))
            where+="$(position killed)"$'\n'
        else # it was done already: on with another one
            wait $pid || fail "a resumed run failed with code $?"
            same killed whole "after $lives kills"
            rm -rf killed
            runs=$((runs + 1))
        fi
    done
    run --out killed --resume >/dev/null 2>&1 || fail "the last resume failed with code $?"
    same killed whole "after $lives kills"
    echo "killed $lives times by the clock, in $((runs + 1)) runs of $took ms:"
    sed 's/ step [0-9]* *//' <<<"$where" | grep . | sort | uniq -c
}

# ---- at numbered operations on files --------------------------------------------------------------------------------
counted() { # FAULT: a run in counted/run, every operation on its files counted
    exec env LD_PRELOAD="$fault" RECOLLECT_FAULT_UNDER=/counted RECOLLECT_FAULT="$1" RECOLLECT_FAULT_LOG="$work/log" \
        "$program" run small.yaml --method cwd --threads 1 --checkpoint 0 --out "$work/counted/run"
}
pick() { # WHICH PATTERN: the number of the operation that looks like this, of which the first is 1 and the last is $
    grep -E "$2" operations | cut -d' ' -f1 | sed -n "$1p"
}

kill_at_operations() {
    local all numbers=() number what code i
    mkdir counted
    (counted count:0) >/dev/null 2>&1
    all=$(wc -l <log)
    [ "$all" -gt 100 ] || fail "only $all operations on files were counted"
    cp log operations
    numbers+=("$(pick $ 'write .*/cwd/checkpoint')" "$(pick $ 'rename .*/cwd/checkpoint')")
    # (When the first task ends there is none to remove yet.)
    numbers+=("$(pick 2 'remove .*/cwd/checkpoint')" "$(pick $ 'remove .*/cwd/checkpoint')")
    numbers+=("$(pick $ 'write .*/cwd/results.json')" "$(pick $ 'rename .*/cwd/results.json')")
    numbers+=("$(pick $ 'make .*/cwd/task-2')")
    numbers+=("$(pick 1 'write .*/run.json')" "$(pick $ 'write .*events.jsonl')")
    for ((i = 0; i < operations; i++)); do numbers+=($((1 + RANDOM * all / 32768))); done
    for number in "${numbers[@]}"; do
        [ -n "$number" ] || fail "an operation that should be there is not"
        rm -rf counted/run
        what=$(sed -n "${number}p" operations | sed "s|[^ ]*/counted/run/||; s/\.tmp-[-0-9]*//")
        code=0
        counted "kill:$number" >/dev/null 2>&1 &
        wait $! 2>/dev/null || code=$?
        [ $code -eq 137 ] || fail "killed at operation $what, the run ended with code $code"
        run --out counted/run --resume >/dev/null 2>message || fail "killed at operation $what: $(cat message)"
        same counted/run whole "killed at operation $what"
    done
    echo "killed at ${#numbers[@]} of $all operations on files"
}

# ---- a grid, side by side ---------------------------------------------------------------------------------------------
kill_grid() {
    local began took lives=0 pid i file state models
    local grid=(run small.yaml --method cwd,rdfcil --orders 0,1 --set class_order=published --threads 2 --jobs 2
        --checkpoint 0)
    began=$(date +%s%N)
    "$program" "${grid[@]}" --out grid-whole >/dev/null 2>&1
    took=$((($(date +%s%N) - began) / 1000000))
    for ((i = 0; i < 6; i++)); do
        "$program" "${grid[@]}" --out grid --resume >/dev/null 2>&1 &
        pid=$!
        sleep "$(awk -v t=$took -v r=$RANDOM 'BEGIN { printf "%.3f", t / 1000 * (0.05 + 0.2 * r / 32768) }')"
        if kill -9 $pid 2>/dev/null; then lives=$((lives + 1)); fi
        wait $pid 2>/dev/null || true
    done
    # What is done by now is left alone. A method is done when its results say so, not when its last model is there: they
    # are written after it, and a kill in between repeats the end of the task, model and all.
    { grep -rl --include=results.json '"tasks_done": 3' grid || true; } | while read -r file; do
        stat -c '%n %Y %Z %i' "${file%/*}/task-3.safetensors"
    done | sort >done-before
    "$program" "${grid[@]}" --out grid --resume >/dev/null 2>message || fail "the grid: $(cat message)"
    while read -r file state; do
        [ "$(stat -c '%Y %Z %i' "$file")" = "$state" ] || fail "the grid: $file was done and is made again"
    done <done-before
    models=$(cd grid-whole && find . -name '*.safetensors' | sort)
    [ "$(wc -l <<<"$models")" -eq 14 ] || fail "the grid: these are not 14 models: $models"
    for file in $models; do cmp -s "grid/$file" "grid-whole/$file" || fail "the grid: $file ended with other bits"; done
    [ -z "$(find grid -name '*.tmp-*' -o -name 'checkpoint*')" ] || fail "the grid: something is left over"
    echo "a grid of $took ms killed $lives times, with $(wc -l <done-before) cells done before the end"
}

# ---- asked to stop ---------------------------------------------------------------------------------------------------
# A longer run, so that the signal comes in its midst.
longer=(--set inversion_steps=75 --set epochs=15)

ask_to_stop() {
    local signal pid i code where begun=first-task/events.jsonl
    run --out long "${longer[@]}" >/dev/null 2>&1
    for signal in USR1 USR2 XCPU ALRM HUP INT TERM; do
        life --out stopped "${longer[@]}" >/dev/null 2>message &
        pid=$!
        [ $signal != HUP ] || begun=cwd/results.json # from here on: when the first task is done
        for ((i = 0; i < 6000; i++)); do [ -s stopped/$begun ] && break; sleep 0.02; done
        kill -$signal $pid
        [[ $signal == INT || $signal == TERM ]] || kill -$signal $pid 2>/dev/null || true # again: it asks, no more
        code=0
        wait $pid || code=$?
        [ $code -eq 130 ] || fail "SIG$signal: code $code: $(cat message)"
        # Where files are slow, it may be over between two tasks, before the next one has a step.
        if grep -qE 'task-1.safetensors is intact: --resume goes on from there' message; then
            where=' the end of a task'
        else
            grep -qE 'stopped and saved in task [12], [a-z]+, step [0-9]+ of [0-9]+; --resume goes on from there' message ||
                fail "SIG$signal: no clear message: $(cat message)"
            where=$(position stopped)
            [[ $where == *task* ]] || fail "SIG$signal: nothing was saved"
            grep -q '"event":"end".*"status":"stopped","message":"stopped and saved in task' stopped/*/events.jsonl ||
                fail "SIG$signal: the log does not say so"
        fi
        if [[ $signal == TERM || $signal == INT || $signal == HUP ]]; then
            # Between two tasks there is no checkpoint: then the folder of the signal before stays.
            if [ -e stopped/cwd/checkpoint.safetensors ]; then
                rm -rf without
                cp -r stopped without
            fi
            run --out stopped --resume "${longer[@]}" >/dev/null 2>&1
            same stopped long "after SIG$signal"
        fi
        echo "SIG$signal: saved at$where"
        rm -rf stopped
    done
}

# Under nohup a terminal that closes is nothing to stop for.
outlive_terminal() {
    local pid i
    (trap '' HUP; life --out hung) >/dev/null 2>message &
    pid=$!
    for ((i = 0; i < 6000; i++)); do [ -s hung/first-task/events.jsonl ] && break; sleep 0.02; done
    kill -HUP $pid
    wait $pid || fail "SIGHUP was ignored when it began, and ended it with code $?: $(cat message)"
    same hung whole "under nohup"
}

# The model of the last finished task is enough without the checkpoint: the task that was left begins anew.
go_on_without_checkpoint() {
    local saved=without/cwd/checkpoint.safetensors
    [ $(($(stat -c %s without/cwd/task-1.safetensors) * 2)) -lt "$(stat -c %s $saved)" ] ||
        fail "the model of a task is not much smaller than a checkpoint"
    head -c 5000 $saved >part
    mv part $saved
    run --out without --resume "${longer[@]}" >/dev/null 2>message && fail "half a checkpoint was taken for a whole one"
    grep -qF 'without/cwd/checkpoint.safetensors' message || fail "half a checkpoint: not named: $(cat message)"
    grep -qF 'without this file --resume begins task 2 anew' message ||
        fail "half a checkpoint: no way out: $(cat message)"
    rm $saved
    run --out without --resume "${longer[@]}" >/dev/null 2>message || fail "without its checkpoint: $(cat message)"
    same without long "without its checkpoint"
    echo "without its checkpoint: task 2 was done anew"
}

# ---- every method, a lesson ------------------------------------------------------------------------------------------
# cut_short KILLS TOOK COMMAND...: one life after the other, each of a random length; every third is stopped (SIGSTOP) for
# a moment first. Returns when it is done, or when it was killed so often. `lives` counts.
cut_short() {
    local kills=$1 took=$2 pid i
    shift 2
    for ((i = 0; i < kills; i++)); do
        "$@" >/dev/null 2>message &
        pid=$!
        sleep "$(awk -v t="$took" -v r=$RANDOM 'BEGIN { printf "%.3f", t / 1000 * (0.1 + 0.5 * r / 32768) }')"
        if ((i % 3 == 0)) && kill -STOP $pid 2>/dev/null; then
            sleep 0.1
            kill -CONT $pid 2>/dev/null || true
        fi
        if ! kill -9 $pid 2>/dev/null; then
            # (A lesson may have been killed between its last two deeds: naming the model, removing FILE.part.)
            wait $pid || grep -q "killed.safetensors' is there already" message || fail "$*: code $?: $(<message)"
            return
        fi
        wait $pid 2>/dev/null || true
        lives=$((lives + 1))
    done
}
milliseconds() { # COMMAND...
    local began
    began=$(date +%s%N)
    "$@" >/dev/null 2>message || fail "$*: $(<message)"
    echo $((($(date +%s%N) - began) / 1000000))
}
# same_models FOLDER WHOLE WHAT [EXCEPT]: of whatever methods; and what is measured of them, and nothing left over.
same_models() {
    local file
    for file in $(cd "$2" && find . -name '*.safetensors' -o -name classes.csv -o -name confusion.csv); do
        [ "$file" = "${4:-}" ] || cmp -s "$1/$file" "$2/$file" || fail "$3: $file ended with other bits"
    done
    [ -z "$(find "$1" -name '*.tmp-*' -o -name 'checkpoint*')" ] || fail "$3: something is left over"
}

kill_methods() {
    local method lives=0 took count=0 few=(--set pixel_steps=6 --set pixel_batches=2)
    for method in $("$program" methods | tail -n +2 | cut -d' ' -f1); do
        count=$((count + 1))
        took=$(milliseconds run --out "whole-$method" --method "$method" "${few[@]}")
        cut_short $(((kills + 23) / 24)) "$took" life --out one --resume --checkpoint 0 --method "$method" "${few[@]}"
        run --out one --resume --method "$method" "${few[@]}" >/dev/null 2>message || fail "$method: $(<message)"
        same_models one "whole-$method" "$method"
        rm -rf one
    done
    echo "$count methods killed $lives times"
}

kill_lesson() {
    local lives=0 took lessons=0
    local lesson=(learn photos --preset lesson.yaml --threads 1 --checkpoint 0)
    { grep -vE '^(data|tasks):' small.yaml; echo "min_steps: 60"; } >lesson.yaml
    took=$(milliseconds "$program" "${lesson[@]}" --out lesson.safetensors)
    while [ $lives -lt "$kills" ]; do
        cut_short "$kills" "$took" "$program" "${lesson[@]}" --out killed.safetensors --resume
        [ -e killed.safetensors ] || "$program" "${lesson[@]}" --out killed.safetensors --resume >/dev/null 2>message ||
            fail "a lesson: $(<message)"
        cmp -s killed.safetensors lesson.safetensors || fail "a lesson ended with other bits after $lives kills"
        rm -f killed.safetensors*
        lessons=$((lessons + 1))
    done
    echo "lessons of $took ms killed $lives times, in $lessons lessons"
}

# ---- what else happens to a run that was left half-way ----------------------------------------------------------------
# half_way FOLDER: a run that was killed after its second checkpoint in the second task.
half_way() {
    (env LD_PRELOAD="$fault" RECOLLECT_FAULT_UNDER="/$1/cwd/checkpoint" RECOLLECT_FAULT=kill:40 "$program" run small.yaml \
        --method cwd --threads 1 --checkpoint 0 --out "$work/$1" >/dev/null 2>&1 || true) 2>/dev/null
    [ -e "$1/cwd/checkpoint.safetensors" ] || fail "the run was not killed half-way"
}

# The clock goes forth and back by up to a year, at every look.
jump() {
    local lives=0
    cut_short 6 "$took" env LD_PRELOAD="$fault" RECOLLECT_FAULT_CLOCK=jump "$program" run small.yaml --method cwd --threads 1 \
        --checkpoint 0 --out jumped --resume
    env LD_PRELOAD="$fault" RECOLLECT_FAULT_CLOCK=jump "$program" run small.yaml --method cwd --threads 1 --out jumped \
        --resume >/dev/null 2>message || fail "with a clock that jumps: $(<message)"
    same jumped whole "with a clock that jumps"
    # Of a lease only the time that goes by counts.
    env LD_PRELOAD="$fault" RECOLLECT_FAULT_CLOCK=jump timeout 120 "$program" run small.yaml --method cwd --threads 1 \
        --out leased --resume --share --lease 2 >/dev/null 2>message || fail "a lease and a clock that jumps: $(<message)"
    same leased whole "with a lease and a clock that jumps"
    echo "the clock jumped in $((lives + 1)) lives"
}

copy_folder() {
    half_way first
    cp -r first elsewhere
    run --out elsewhere --resume >/dev/null 2>message || fail "a copy: $(<message)"
    run --out first --resume >/dev/null 2>message || fail "a run that was copied: $(<message)"
    same elsewhere whole "a copy of a run"
    same first whole "a run that was copied"
}

# Two begin at once: one works, the other says so, or comes when all is done.
begin_twice() {
    local i pid code other
    for ((i = 0; i < 4; i++)); do
        rm -rf shared
        half_way shared
        life --out shared --resume >/dev/null 2>one &
        pid=$!
        code=0 other=0
        run --out shared --resume >/dev/null 2>two || other=$?
        wait $pid || code=$?
        [ $((code + other)) -le 1 ] || fail "two at once: codes $code and $other: $(cat one two)"
        [ $((code + other)) -eq 0 ] || grep -q 'another process is working on the run' one two ||
            fail "two at once: $(cat one two)"
        same shared whole "two at once"
    done
}

# A file that is gone: it is made again, or nobody needs it (what belongs to a task that is done), or the message names it.
delete_files() {
    local file made=0 named=0
    half_way whole-but-one
    for file in $(cd whole-but-one && find . -type f | sort); do
        rm -rf lacking
        cp -r whole-but-one lacking
        rm "lacking/$file"
        if run --out lacking --resume >/dev/null 2>message; then
            same_models lacking whole "without $file" "$file"
            made=$((made + 1))
        else
            grep -qF "${file##*/}" message || [ "$file" = ./run.json ] || fail "without $file: $(<message)"
            named=$((named + 1))
        fi
    done
    echo "without one file: $made times the same bits, $named times a message that names it"
}

# ---- all of it -------------------------------------------------------------------------------------------------------
began=$(date +%s%N)
run --out whole --checkpoint 0 >whole.txt 2>/dev/null
took=$((($(date +%s%N) - began) / 1000000))
for part in ${KILL_PARTS-clock files grid signals}; do
    case $part in
        clock)
            run --out again >/dev/null 2>&1
            same again whole "two runs that were left alone"
            kill_by_the_clock
            ;;
        files) kill_at_operations ;;
        grid) kill_grid ;;
        signals)
            ask_to_stop
            outlive_terminal
            go_on_without_checkpoint
            ;;
        methods) kill_methods ;;
        lesson) kill_lesson ;;
        jumps) jump ;;
        copied) copy_folder ;;
        two) begin_twice ;;
        deleted) delete_files ;;
        *) fail "there is no part '$part'" ;;
    esac
done
echo "$name: passed in $SECONDS s"
