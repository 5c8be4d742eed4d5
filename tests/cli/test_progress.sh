#!/usr/bin/env bash
# What a person sees of long work: a live line that never wraps, whatever the window's width, with the part that is
# done and the time left first; losses only where there is room, or with --verbose; plain lines in a pipe and on a dumb
# terminal. In a pseudo-terminal of in_terminal's, and in tmux, which draws as terminals do.
#
# usage: test_progress.sh RECOLLECT MAKE_IMAGES IN_TERMINAL PART     PART: lines or tmux
set -uo pipefail
export LC_ALL=C TERM=xterm
recollect=$(realpath "$1") make_images=$(realpath "$2") in_terminal=$(realpath "$3") part=$4
work=$(mktemp -d "${TMPDIR:-/tmp}/recollect-progress-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}
"$make_images" procedural:10 train 0 4 16 png first
"$make_images" procedural:10 train 4 6 16 png second
tiny=(--threads 1 --force --set batch=16)
first=(learn first --out one.safetensors --size 16 --set net_width=4 --set generator_width=8 "${tiny[@]}")
second=(learn one.safetensors second --out two.safetensors "${tiny[@]}")
"$recollect" "${first[@]}" --epochs 2 --set min_steps=20 >/dev/null 2>&1 || fail "no first model"
# Lessons with all stages and many losses; the long one shows each of them for a second or more.
short=("${second[@]}" --set inversion_steps=20 --epochs 10 --set min_steps=1)
long=("${second[@]}" --set inversion_steps=750 --epochs 360 --set min_steps=1)
losses='cross entropy|HKD|content|diversity|BN statistics'

# live FILE: the live lines of what a terminal got, one a line, and the changes of the window's width
live() { sed 's/\x1b\[K/\n/g' "$1" | tr -d '\r' | grep -E '^(\[|@)'; }
# widest FILE: the columns of the widest live line
widest() { live "$1" | awk '{ if (length($0) > most) most = length($0) } END { print most + 0 }'; }

lines() {
    for columns in 10 20 40 80 200; do
        lesson=("${long[@]}")
        [ $columns -ge 40 ] || lesson=("${short[@]}")
        "$in_terminal" $columns "$recollect" "${lesson[@]}" >seen.txt || fail "$columns columns: exit code $?"
        [ "$(widest seen.txt)" -lt $columns ] || fail "$columns columns: a line of $(widest seen.txt): $(live seen.txt)"
        [ "$(tr -cd '\033' <seen.txt | wc -c)" -eq "$(grep -o $'\x1b\\[K' seen.txt | wc -l)" ] ||
            fail "$columns columns: other codes than the one that clears a line"
        live seen.txt >"live-$columns.txt"
    done
    # From 40 columns on: the part that is done, and the time left; from 80 on also rate and stage.
    grep -qE '^\[#+-+\]  [1-9][0-9] %  0:0[0-9] left' live-40.txt || fail "40 columns: $(cat live-40.txt)"
    grep -qE '%  0:0[0-9] left  [0-9.]+ images/s  (training, epoch [0-9]+/[0-9]+|inversion [0-9]+/750)' live-80.txt ||
        fail "80 columns: $(cat live-80.txt)"
    grep -qE "images/s  training, epoch [0-9]+/[0-9]+  ($losses)" live-200.txt || fail "200 columns: $(cat live-200.txt)"
    grep -qE "$losses" live-40.txt && fail "losses at 40 columns"
    # It begins near 0, never goes back within the lesson, and ends at 100.
    grep -E 'training|inversion|refinement|estimation' live-80.txt | sed 's/^[^]]*\] *\([0-9]*\) %.*/\1/' >percent.txt
    sort -nc percent.txt || fail "percentages go back: $(tr '\n' ' ' <percent.txt)"
    [ "$(head -n 1 percent.txt)" -lt 40 ] || fail "it begins at $(head -n 1 percent.txt) %"
    [ "$(tail -n 1 percent.txt)" -eq 100 ] || fail "it ends at $(tail -n 1 percent.txt) %"

    # Help, too, fits into the window, but for examples; in a narrow one a text goes on in its column.
    for columns in 60 80; do
        for command in "" learn run bench analyze; do
            "$in_terminal" $columns "$recollect" $command --help | tr -d '\r' | sed '/^examples:/,$d' >seen.txt
            [ "$(awk -v most=$columns 'length($0) > most' seen.txt | grep -v '^usage' | grep -vcE '^  [a-z]+  +[a-z]')" -eq 0 ] ||
                fail "$columns columns of help of '$command': $(cat seen.txt)"
        done
    done
    "$in_terminal" 60 "$recollect" --help | tr -d '\r' | grep -A 1 '^  learn      Teaches new classes' |
        grep -qE '^             [a-z]' || fail "help does not go on in its column"
    "$in_terminal" 80 "$recollect" "${short[@]}" --verbose >seen.txt
    [ "$(widest seen.txt)" -lt 80 ] || fail "--verbose: a line of $(widest seen.txt) columns"
    live seen.txt | grep -E "inversion [0-9]+/20  ($losses)" >/dev/null || fail "--verbose shows no losses: $(live seen.txt)"

    # A window that is resized all the time: each line fits into the window as it was then.
    "$in_terminal" 120,44,70 "$recollect" "${long[@]}" >seen.txt
    live seen.txt | awk 'BEGIN { width = 120 } /^@/ { width = substr($0, 2) + 0; next }
        length($0) >= width { print "line of " length($0) " in " width ": " $0; bad = 1 }
        length($0) > 44 { wide++ } { lines++ } END { exit bad || !wide || wide == lines }' ||
        fail "a resized window: $(live seen.txt)"

    # Plain lines: no codes, a line at the end of each stage, losses only with --verbose.
    for where in pipe dumb none; do
        began=$SECONDS
        case $where in
            pipe) "$recollect" "${long[@]}" 2>plain.txt >/dev/null ;;
            dumb) TERM=dumb "$in_terminal" 30 "$recollect" "${short[@]}" | tr -d '\r' >plain.txt ;;
            none) env -u TERM "$in_terminal" 30 "$recollect" "${short[@]}" | tr -d '\r' >plain.txt ;;
        esac
        grep -q $'[\r\x1b]' plain.txt && fail "$where: a plain line has codes"
        rate=', [0-9]+:[0-9]{2} left, [0-9]+ images/s'
        [ $where = pipe ] || rate= # a short one has none
        grep -qE "^training, epoch ([0-9]+)/\\1: [0-9]+ % of all$rate\$" plain.txt || fail "$where: no plain line: $(cat plain.txt)"
        most=$((6 + (SECONDS - began) / 10)) # a busy machine: one every ten seconds
        [ "$(grep -cE ': [0-9]+ %' plain.txt)" -le $most ] || fail "$where: too many lines: $(cat plain.txt)"
        grep -qE "$losses" plain.txt && fail "$where: losses without --verbose"
    done
    "$recollect" "${short[@]}" --verbose 2>plain.txt >/dev/null
    grep -qE '^training, epoch ([0-9]+)/\1: [0-9]+ % of all, .*cross entropy [0-9.e-]+, HKD' plain.txt || fail "verbose: $(cat plain.txt)"

    # The other commands.
    "$in_terminal" 40 "$recollect" dream one.safetensors --out dreams --steps 400 --threads 1 >seen.txt
    live seen.txt | grep -E '^\[#+-*\] +[1-9][0-9]* %  0:0[0-9] left' >/dev/null || fail "dream: $(cat seen.txt)"
    [ "$(widest seen.txt)" -lt 40 ] || fail "dream: a line of $(widest seen.txt) columns"
    "$in_terminal" 40 "$recollect" eval one.safetensors first --threads 1 >seen.txt
    live seen.txt | grep -E '^\[#+\] 100 %  scoring 64/64' >/dev/null || fail "eval: $(cat seen.txt)"
    # Names in tables: Chinese characters take two columns each.
    mkdir named && cp -r first/* named/ && mv "named/$(ls named | head -n 1)" named/日本
    "$recollect" "${first[@]/first/named}" --epochs 2 --set min_steps=1 >/dev/null 2>&1 || fail "no model with other names"
    "$recollect" eval one.safetensors named --threads 1 2>/dev/null | grep -E '^ +[0-9]+  .* %  \(16 images' |
        sed 's/日本/1234/; s/%.*//' | awk '{ print length($0) }' | sort -u >ends.txt
    [ "$(wc -l <ends.txt)" -eq 1 ] || fail "columns of a table do not end at one place: $(cat ends.txt)"
    "$in_terminal" 60 "$recollect" run demo --data procedural:10 --out runs --method finetune,cwd --jobs 2 --threads 2 \
        --set tasks=2 --set epochs=3 --set refine_epochs=1 --set inversion_steps=30 --set net_width=4 \
        --set generator_width=8 --set images_per_class=32 >seen.txt || fail "run: exit code $?: $(tail -n 3 seen.txt)"
    [ "$(widest seen.txt)" -lt 60 ] || fail "run: a line of $(widest seen.txt) columns: $(live seen.txt)"
    live seen.txt | grep -E '^\[#*-*\] +[0-9]+ %.*(CwD|Fine-tun|\.\.\.)' >/dev/null || fail "run: $(live seen.txt)"
}

# What is on the screen while it works: nothing is wrapped, one live line at most, and none when it is done.
on_screen() {
    command -v tmux >/dev/null || {
        echo "tmux is missing; script/bootstrap --test installs it"
        [ -z "${RECOLLECT_TEST_NO_SKIP:-}" ] || exit 1
        exit 77
    }
    local server columns looks seen
    for columns in 40 80 200; do
        server=$work/server-$columns # of its own: the one before may still be ending
        rm -f done
        tmux -S "$server" -f /dev/null new-session -d -x $columns -y 20 \
            "TERM=screen '$recollect' ${long[*]} >out.txt; echo \$? >done; sleep 20" || fail "tmux does not start"
        looks=0 seen=0
        until [ -e done ] || [ $looks -gt 600 ]; do
            tmux -S "$server" capture-pane -p >screen.txt
            grep -E '^\[[#-]+\] +[0-9]+ %' screen.txt >bars.txt
            # Notes before it may wrap as they like; the line that comes again and again must not.
            [ "$(wc -l <bars.txt)" -le 1 ] || fail "$columns columns: more than one live line: $(cat screen.txt)"
            if grep -q ' left' bars.txt; then
                seen=$((seen + 1))
                [ "$(grep -A1 -E '^\[[#-]+\]' screen.txt | tail -n +2 | tr -d ' \n')" = "" ] ||
                    fail "$columns columns: the live line goes on in the next one: $(cat screen.txt)"
            fi
            looks=$((looks + 1))
            sleep 0.05
        done
        [ $seen -gt 0 ] || fail "$columns columns: no live line with the time left in $looks looks: $(cat screen.txt)"
        [ "$(cat done)" = 0 ] || fail "$columns columns: exit code $(cat done)"
        tmux -S "$server" capture-pane -p >screen.txt
        grep -qE '^\[[#-]+\]' screen.txt && fail "$columns columns: the live line is left over: $(cat screen.txt)"
        tmux -S "$server" kill-server
        echo "tmux, $columns columns: $seen looks at a live line"
    done
}

case $part in
    lines) lines ;;
    tmux) on_screen ;;
    *) fail "there is no part '$part'" ;;
esac
[ $failures -eq 0 ] || exit 1
echo "test_progress $part: passed in $SECONDS s"
