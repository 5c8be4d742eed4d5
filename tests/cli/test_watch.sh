#!/usr/bin/env bash
# recollect watch: what is printed where there is no terminal, that no line of it is wider than its terminal or holds
# anything that a terminal obeys, whatever the logs hold; and in tmux, which draws as terminals do, that it is live, that
# keys and signals leave, and that the terminal is as before.
#
# usage: test_watch.sh RECOLLECT IN_TERMINAL PART     PART: lines or tmux
set -uo pipefail
export LC_ALL=C TERM=xterm
recollect=$(realpath "$1") in_terminal=$(realpath "$2") part=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/recollect-watch-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}
now() { date +%s; }

# cell FOLDER NAME TASKS: a log that begins
cell() {
    mkdir -p "$1"
    printf '{"event":"run","cell":"%s","method":"x","task_sizes":[%s]}\n' "$2" \
        "$(seq -s , "$3" | sed 's/[0-9][0-9]*/2/g')" >"$1/events.jsonl"
}
task() { # FOLDER TASK ACCURACY
    printf '{"event":"task","time":%s,"task":%s,"accuracy":%s}\n' "$(now)" "$2" "$3" >>"$1/events.jsonl"
}
step() { # FOLDER TASK STAGE STEP LOSS [LEFT]
    printf '{"event":"step","time":%s,"task":%s,"stage":"%s","step":%s,"steps":100,"epoch":1,"epochs":9,"total_step":%s,"total_steps":400,"learning_rate":0.1,"images_per_second":1234,"seconds_left":%s,"memory":41000000,"loss":{"ce":0.5,"hkd":0.25},"total_loss":%s}\n' \
        "$(now)" "$2" "$3" "$4" "$(($4 + 100))" "${6:-1000}" "$5" >>"$1/events.jsonl"
}
cell run/cwd CwD 3
task run/cwd 1 85.5
task run/cwd 2 70.25
for i in 10 30 50 70 90; do step run/cwd 3 training $i "$(awk -v i=$i 'BEGIN { print 5 - i / 25 }')"; done
cell run/er ER 3
for i in 1 2 3; do task run/er $i $((90 - 10 * i)); done
printf '{"event":"end","status":"done","message":""}\n' >>run/er/events.jsonl
cell run/lwf LwF 3
printf '{"event":"end","status":"failed","message":"no room left on the disk"}\n' >>run/lwf/events.jsonl
cell run/kill Killed 3
step run/kill 2 inversion 10 1
sed -i "s/\"time\":[0-9]*/\"time\":$(($(now) - 300))/" run/kill/events.jsonl

lines() {
    "$recollect" watch run >plain.txt 2>message.txt || fail "code $?: $(cat message.txt)"
    for pattern in '^run: 4 cells, 1 done$' '^>a CwD +3/3 +training 2/9 +####------ +47 % +1[0-9]:[0-9]+ left +70.25 %$' \
        '^ b ER +3/3 +##########  100 % +done +60.00 %$' \
        '^ c Killed +2/3 +inversion 2/9 +##-------- +27 % +silent [5-9]:[0-9]+$' '^ d LwF +0/3 .*failed' '^d: no room left on the disk$' \
        '^a: ce 0.5, hkd 0.25; rate 0.1; 41.0 MB$' '^accuracy in % after every task$' '^a: loss of task 3, training$' \
        '^ +[0-9.]+ \|.*b' '^ +steps 0 to 100$' '^ +tasks 1 to 3$'; do
        grep -qE "$pattern" plain.txt || fail "there is no line '$pattern': $(cat plain.txt)"
    done
    # A pipe, a file, a dumb terminal, --once on any: the same plain text, and the program ends by itself.
    without_times() { sed 's/[0-9]*:[0-9]*//'; }
    diff <("$recollect" watch run | without_times) <(without_times <plain.txt) >difference.txt ||
        fail "a pipe: $(cat difference.txt)"
    for ending in dumb once; do
        case $ending in
            dumb) TERM=dumb "$in_terminal" 120 "$recollect" watch run >seen.txt || fail "a dumb terminal: code $?" ;;
            once) "$in_terminal" 120 "$recollect" watch run --once >seen.txt || fail "--once: code $?" ;;
        esac
        tr -d '\r' <seen.txt | grep -q '^run: 4 cells, 1 done$' || fail "$ending: $(cat seen.txt)"
        [ "$(tr -cd '\033' <seen.txt | wc -c)" -eq 0 ] || fail "$ending: codes of a terminal"
    done

    # Whatever logs hold: nothing that a terminal obeys, no line that is too wide, no crash.
    mkdir -p hostile/a hostile/$'b\e[2J'
    {
        printf '{"event":"run","cell":"\\u001b[2Jred\\u202e \\u0007 name\\nline","task_sizes":[1,2]}\n'
        printf '{"event":"step","time":1e300,"task":1,"stage":"\\u001b]0;x\\u0007","step":5,"steps":9,"epoch":-3,"epochs":2147483647,"total_step":9000000000000000000,"total_steps":1,"learning_rate":1e308,"images_per_second":1e300,"seconds_left":-1e300,"memory":1e300,"loss":{"\\u001b[1m":1e308,"%%s%%n":2},"total_loss":1e308}\n'
        printf '{"event":"step","time":1,"task":1,"stage":"\\u001b]0;x\\u0007","step":6,"steps":9,"loss":{"x":1},"total_loss":-1e308}\n'
        printf '{"event":"step","time":1,"task":1,"stage":"\\u001b]0;x\\u0007","step":7,"steps":9,"loss":{"x":1},"total_loss":1e-308}\n'
        printf '{"event":"task","task":2,"accuracy":1e-300}\n'
        printf '\033[2J\033]0;title\007\n{"event":\0}\n'
        printf '{"event":"end","status":"\\u001b[2J","message":"%s\\u001b[31m"}\n' "$(printf 'x%.0s' {1..3000})"
        printf '{"event":"st'
    } >hostile/a/events.jsonl
    head -c 100000 /dev/urandom >hostile/$'b\e[2J'/events.jsonl
    "$recollect" watch hostile >seen.txt 2>&1 || fail "hostile logs: code $?"
    grep -q '\\u001b\[2Jred\\u202e' seen.txt || fail "a hostile name is not shown: $(cat seen.txt)"
    [ "$(tr -d '\n\40-\176' <seen.txt | wc -c)" -eq 0 ] || fail "hostile logs: $(od -c seen.txt | head -n 20)"
    [ "$(awk '{ if (length($0) > most) most = length($0) } END { print most }' seen.txt)" -le 80 ] ||
        fail "hostile logs: a line is wider than 80: $(cat seen.txt)"

    # Wrong usage, folders that are none, and a pipe that nobody reads.
    "$recollect" watch 2>message.txt && fail "no run: it worked"
    grep -q 'which run' message.txt || fail "no run: $(cat message.txt)"
    "$recollect" watch nowhere 2>message.txt && fail "a folder that is not there: it worked"
    grep -q "cannot open 'nowhere'" message.txt || fail "a folder that is not there: $(cat message.txt)"
    mkdir empty
    "$recollect" watch empty 2>message.txt && fail "an empty folder: it worked"
    grep -q "there is no run in 'empty'" message.txt || fail "an empty folder: $(cat message.txt)"
    mkdir reading && echo '{}' >reading/run.json # the run reads its images
    "$recollect" watch reading 2>message.txt && fail "a run without a cell: it worked"
    grep -q "there is no run in 'reading' whose first cell has begun: expected a folder" message.txt ||
        fail "a run without a cell: $(cat message.txt)"
    "$recollect" watch run >/dev/full 2>message.txt && fail "a full disk: it worked"

    # A real run, in every state that it has: before, while and after.
    "$recollect" run demo --data procedural:10 --out real --method finetune,cwd --jobs 2 --threads 2 \
        --set epochs=3 --set refine_epochs=1 --set inversion_steps=30 --set net_width=4 --set generator_width=8 \
        --set images_per_class=32 >/dev/null 2>&1 &
    for ((i = 0; i < 3000; i++)); do
        [ -e real ] && "$recollect" watch real >seen.txt 2>&1
        grep -q 'real: 3 cells, 3 done' seen.txt && break
        sleep 0.02
    done
    wait
    grep -q '^ *tasks 1 to 3$' seen.txt || fail "a real run: $(cat seen.txt)"
}

# In tmux: what is on the screen, and that it changes.
on_screen() {
    command -v tmux >/dev/null || {
        echo "tmux is missing; script/bootstrap --test installs it"
        [ -z "${RECOLLECT_TEST_NO_SKIP:-}" ] || exit 1
        exit 77
    }
    local server columns i
    # until_seen PATTERN: waits until it is on the screen
    until_seen() {
        for ((i = 0; i < 300; i++)); do
            tmux -S "$server" capture-pane -p >screen.txt
            grep -qE -- "$1" screen.txt && return
            sleep 0.05
        done
        fail "$columns columns: '$1' is not on the screen: $(cat screen.txt)"
    }
    until_done() {
        for ((i = 0; i < 200; i++)); do [ -e done ] && break; sleep 0.05; done
        [ "$(cat done 2>/dev/null)" = "$1" ] || fail "$columns columns, $2: code '$(cat done 2>/dev/null)', expected $1"
    }
    local leave
    for columns in 40 80 200; do
        server=$work/server-$columns
        rm -f done
        leave=q
        [ $columns -ne 80 ] || leave=C-c
        tmux -S "$server" -f /dev/null new-session -d -x $columns -y 24 \
            "stty -a >before.txt; echo before; TERM=screen '$recollect' watch run; echo \$? >done; stty -a >after.txt; sleep 20" ||
            fail "tmux does not start"
        until_seen '^q leaves'
        grep -qE '^run: 4 cells, 1 done$' screen.txt || fail "$columns columns: $(cat screen.txt)"
        grep -qE '^>a CwD +.*47 % +1[0-9]:[0-9]+ left' screen.txt || fail "$columns columns: no cell: $(cat screen.txt)"
        grep -qE '^accuracy in % after every task' screen.txt || fail "$columns columns: no curve: $(cat screen.txt)"
        [ "$(awk '{ if (length($0) > most) most = length($0) } END { print most }' screen.txt)" -le $columns ] ||
            fail "$columns columns: too wide"
        grep -qE 'a: loss of task 3, training' screen.txt || fail "$columns columns: no losses: $(cat screen.txt)"
        # It chooses another cell, and follows the log.
        tmux -S "$server" send-keys Down
        until_seen '^>b ER'
        tmux -S "$server" send-keys k
        until_seen '^>a CwD'
        step run/cwd 3 training 95 1 5000
        until_seen '^>a CwD .*48 % +1:2[0-9]:[0-9]+ left'
        sed -i '$d' run/cwd/events.jsonl
        until_seen '^>a CwD .*47 %'
        # A window of another size, also a tiny one.
        tmux -S "$server" resize-window -x 20 -y 5 2>/dev/null && { sleep 1.2; until_seen '^q leaves'; }
        tmux -S "$server" send-keys $leave
        until_done "$([ $leave = q ] && echo 0 || echo 130)" "$leave"
        until_seen '^before$' # the screen of before is back
        cmp -s <(grep -v columns before.txt) <(grep -v columns after.txt) || fail "the terminal is not as before: $(diff before.txt after.txt)"
        tmux -S "$server" kill-server
    done
    # Cells take the lines that are too few for a curve.
    server=$work/server-many columns=80
    for i in {1..15}; do
        cell many/$i "cell $i" 3
        task many/$i 1 50
        step many/$i 2 training 10 1
        printf '{"event":"end","status":"stopped","message":"stopped after task 1 of 3"}\n' >>many/$i/events.jsonl
    done
    tmux -S "$server" -f /dev/null new-session -d -x 80 -y 24 "TERM=screen '$recollect' watch many"
    until_seen '^many: 15 cells, 0 done'
    until_seen '^ a cell 1 '
    until_seen '^>o cell 9 '
    until_seen '^c: stopped after task 1 of 3$'
    tmux -S "$server" kill-server
    # A run that has not begun is waited for, also when keys choose among its cells before there are any.
    server=$work/server-new columns=80
    mkdir -p later
    rm -f done
    tmux -S "$server" -f /dev/null new-session -d -x 80 -y 24 "TERM=screen '$recollect' watch later; echo \$? >done; sleep 20"
    until_seen 'later: no cell has begun'
    tmux -S "$server" send-keys Down
    sleep 0.5
    cell later/cwd CwD 3
    until_seen 'later: 1 cell, 0 done'
    until_seen '^>a CwD'
    # The chosen cell stays the chosen one, whatever begins before it.
    tmux -S "$server" send-keys Down
    sleep 0.5
    cell later/abd ABD 3
    until_seen '^>b CwD'
    tmux -S "$server" send-keys Up
    until_seen '^>a ABD'
    tmux -S "$server" send-keys q
    until_done 0 "q"
    tmux -S "$server" kill-server
}

case $part in
    lines) lines ;;
    tmux) on_screen ;;
esac
[ $failures -eq 0 ] || exit 1
echo passed
