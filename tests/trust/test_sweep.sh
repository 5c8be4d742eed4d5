#!/usr/bin/env bash
# Memory that runs out, once or for good, at numbered requests of the heap by anyone in the process; and system calls that
# fail, or do half of their work: files, names, threads, mappings (heap.c and calls.c say which). Whatever happens, a command either ends with code 0 and with the bytes on stdout and in its files that it has without a fault, or with
# code 1, a message, and nothing half done: its folder is as it was before, and a run that goes on with --resume ends
# with the bytes of a whole one. Every violation is told; the figures of each command come last.
#
# usage: test_sweep.sh PROGRAM MAKE_IMAGES FAULT_LIBRARY HEAP_LIBRARY CALLS_LIBRARY USE_API MAKE_WEIGHTS
#                      [POINTS|all|POINT [SEED [COMMAND...]]]
#   POINTS: how many requests of the heap fail in each command (the first, the last, some by the seed, the others evenly),
#   in each of the two ways, and half as many system calls, drawn by the seed, where `swept` names it; all: every one, in
#   every way. POINT: one, as a violation names it, such as heap:once:17 or eio:from:3.
#   SWEEPS: what fails, of "heap calls" (default: both). PART, TRIED: points.sh. test_sweep.sh --list: names of commands
order=(info info-json info-machine predict predict-json predict-csv predict-list predict-formats eval eval-json
    eval-folders eval-formats eval-lists eval-tiny eval-idx eval-cifar learn learn-json learn-more learn-more-json learn-resume dream
    dream-beside dream-again import import-old import-safetensors export-onnx export-torch export-c learn-head analyze-ledger analyze-dkl analyze-norms analyze-gradient analyze-cost
    pack report api run run-killed run-done run-two watch reproduce reproduce-merge)
if [ "${1:-}" = --list ]; then
    printf '%s\n' "${order[@]}"
    exit
fi
fixtures=$(realpath "$(dirname "$0")/../fixtures/pictures")
. "$(dirname "$0")/smallest.sh"
. "$(dirname "$0")/points.sh"
. "$(dirname "$0")/common.sh"
fault=$3 heap=$4 calls=$5 use_api=$6 make_weights=$7 points=${8:-4} seed=${9:-$$}
shift $(($# < 9 ? $# : 9))
only=("$@")
limit=20 # seconds, of milliseconds
shopt -s nullglob globstar
echo "$name: seed $seed"
RANDOM=$seed

# ---- what is swept ----------------------------------------------------------------------------------------------------
# Pictures of all formats, a grey one among them, models of one and of two lessons, a run that was killed half-way.
mkdir inputs
"$make_images" procedural:2 train 0 1 5 jpg inputs/first
"$make_images" procedural:2 train 1 2 5 png inputs/first
some() { # FOLDER CLASS: five photos of it
    local files=(photos/"$2"/*)
    mkdir -p "$1/$2"
    cp "${files[@]:0:5}" "$1/$2"
}
for class in bar-plain-cyan cross-plain-yellow disc-plain-red ring-plain-violet; do some inputs/photos $class; done
some inputs/second triangle-plain-blue
mkdir inputs/pictures
pictures=(inputs/first/*/* inputs/second/*/*)
cp "${pictures[0]}" "${pictures[-6]}" "${pictures[-1]}" inputs/pictures
printf 'P5\n16 16\n255\n%0256d' 0 >inputs/pictures/grey.pgm
{ smallest 1; echo "min_steps: 1"; } >inputs/learn.yaml
mkdir -p inputs/watched/cwd
for step in 1 2 3; do
    echo '{"event":"step","time":1,"task":1,"stage":"training","step":'$step',"steps":9,"loss":{"ce":2},"total_loss":'$step'}'
done >inputs/watched/cwd/events.jsonl
{ echo "data: ../inputs/photos"; echo "tasks: 2"; smallest 1; } >inputs/run.yaml
# Formats of optional libraries, and what is left out. (libtiff 4.5.0 and libwebp 1.2.4 themselves crash at some requests
# with other compressions than these.)
mkdir -p inputs/formats/{bar,cross}-plain-{cyan,yellow}
rmdir inputs/formats/{bar-plain-yellow,cross-plain-cyan}
cp "$fixtures"/{lossy.webp,fax.tif,palette.gif} inputs/formats/bar-plain-cyan
cp "$fixtures"/{rgb.tif,interlaced.gif,rgb.bmp,palette.bmp} inputs/formats/cross-plain-yellow
printf '\0\0\0\030ftypheic\0\0\0\0mif1heic' | tee inputs/formats/bar-plain-cyan/a.heic >inputs/formats/stray.heic
ln -s .. inputs/formats/bar-plain-cyan/up
ln -s ../cross-plain-yellow inputs/formats/bar-plain-cyan/others
printf '%s\n' ../inputs/pictures/grey.pgm "../${pictures[0]}" >inputs/list
"$program" learn inputs/first --preset inputs/learn.yaml --threads 1 --out inputs/one.safetensors >/dev/null 2>&1
"$program" learn inputs/one.safetensors inputs/second --adapt all --threads 1 --out inputs/two.safetensors >/dev/null 2>&1

# Two classes of five photos in every form that data comes in, ten classes of CIFAR-10, and a model of each.
a=inputs/photos/bar-plain-cyan b=inputs/photos/cross-plain-yellow
mkdir -p inputs/folders/{train,val} inputs/lists inputs/tiny/train/{a,b} inputs/tiny/val/images inputs/idx cifar-10-batches-bin
cp -r $a $b inputs/folders/train
cp -r $a $b inputs/folders/val
cp -r $a $b inputs/lists
number() { printf '\\0\\0\\0\\%o' "$1"; } # as four bytes
images=(inputs/lists/*/*)
for ((i = 0; i < 10; i++)); do
    part=$([ $((i % 5)) -eq 0 ] && echo val || echo train)
    echo "${images[i]#inputs/lists/} $((i / 5))" >>inputs/lists/$part.txt
done
printf 'a\nb\n' >inputs/tiny/wnids.txt
cp -r $a inputs/tiny/train/a/images
cp -r $b inputs/tiny/train/b/images
cp $a/*5.ppm inputs/tiny/val/images
for image in inputs/tiny/val/images/*; do printf '%s\ta\t0\t0\t9\t9\n' "${image##*/}"; done >inputs/tiny/val/val_annotations.txt
for part in train t10k; do
    { printf "\\0\\0\\10\\3$(number 8)$(number 14)$(number 14)"; cat $a/* | tail -c $((8 * 14 * 14)); } |
        gzip >inputs/idx/$part-images-idx3-ubyte.gz
    printf "\\0\\0\\10\\1$(number 8)\\0\\1\\0\\1\\0\\1\\0\\1" | gzip >inputs/idx/$part-labels-idx1-ubyte.gz
done
for label in 0 1 2 3 4 5 6 7 8 9; do
    printf "\\$(printf %o "$label")"
    cat $a/* | tail -c $((3072 + label)) | head -c 3072
done >cifar-10-batches-bin/test_batch.bin
for i in 1 2 3 4 5; do cp cifar-10-batches-bin/test_batch.bin cifar-10-batches-bin/data_batch_$i.bin; done
printf 'name %d\n' 0 1 2 3 4 5 6 7 8 9 >cifar-10-batches-bin/batches.meta.txt
tar czf inputs/cifar.tar.gz cifar-10-batches-bin
# A CIFAR-100 of one grey image a class: two labels, three planes.
mkdir inputs/cifar100
printf -v planes '%3072s' ''
for ((label = 0; label < 100; label++)); do
    printf -v octal %03o "$label"
    printf -v shade "\\$(printf %03o $((33 + label * 7 % 90)))"
    printf "\\000\\$octal%s" "${planes// /$shade}"
done | tee inputs/cifar100/train.bin >inputs/cifar100/test.bin
for data in folders lists tiny idx cifar.tar.gz; do
    "$program" learn inputs/$data --preset inputs/learn.yaml --threads 1 --out inputs/${data%.tar.gz}.safetensors \
        >/dev/null 2>message || fail "learning from $data: $(<message)"
done

# Somebody's weights, of the smallest net that is published, in every kind of file, and the model that they become.
for kind in deflated old safetensors; do "$make_weights" cifar-resnet20 2 $kind inputs/weights.$kind; done
printf 'a\nb\n' >inputs/labels
"$program" import inputs/weights.old --classes inputs/labels --out inputs/imported.safetensors >/dev/null 2>message ||
    fail "an import: $(<message)"

mkdir made # beside `inputs`, as the folders of the commands are
(cd made && "$program" run ../inputs/run.yaml --method cwd,joint --threads 1 --out ../inputs/past >/dev/null 2>../message) ||
    fail "a run: $(<message)"
cell="reproduce fig-norm --only scheme-real-lce --scale 0.001 --threads 1" # the smallest that there is
(cd made && "$program" $cell --data cifar100=../inputs/cifar100 --out ../inputs/paper >/dev/null 2>../message) ||
    fail "a figure: $(<message)"

one=../inputs/one.safetensors two=../inputs/two.safetensors
declare -A commands=(
    [eval-folders]="eval ../inputs/folders.safetensors ../inputs/folders --threads 1 --skip-broken"
    [eval-lists]="eval ../inputs/lists.safetensors ../inputs/lists --threads 1 --skip-broken"
    [eval-tiny]="eval ../inputs/tiny.safetensors ../inputs/tiny --threads 1 --csv"
    [eval-idx]="eval ../inputs/idx.safetensors ../inputs/idx --threads 1"
    [eval-cifar]="eval ../inputs/cifar.safetensors ../inputs/cifar.tar.gz --threads 1"
    [info]="info $two"
    [info-json]="info $two --json"
    [info-machine]="info"
    [predict]="predict $two ../inputs/pictures --threads 1"
    [predict-json]="predict $two ../inputs/pictures --threads 1 --json"
    [predict-csv]="predict $two ../inputs/pictures --threads 1 --csv"
    [predict-formats]="predict $two ../inputs/formats --threads 1"
    [eval-formats]="eval ../inputs/folders.safetensors ../inputs/formats --threads 1 --skip-broken"
    [predict-list]="predict $two --list - --threads 1"
    [eval]="eval $two ../inputs/first --threads 1"
    [eval-json]="eval $two ../inputs/first --threads 1 --json"
    [learn]="learn ../inputs/first --preset ../inputs/learn.yaml --threads 1 --out new.safetensors"
    [learn-json]="learn ../inputs/first --preset ../inputs/learn.yaml --threads 1 --out old.safetensors --force --json"
    [learn-more]="learn $one ../inputs/second --adapt all --threads 1 --out new.safetensors --old-test ../inputs/first"
    [learn-more-json]="learn $one ../inputs/second --threads 1 --out new.safetensors --json"
    [learn-resume]="learn $one ../inputs/second --adapt all --threads 1 --checkpoint 0 --out new.safetensors --resume"
    [dream]="dream $two --steps 1 --per-class 2 --threads 1 --out dreams"
    [dream-beside]="dream $two --steps 1 --per-class 2 --threads 1 --out dreams --beside ../inputs/first --json"
    [dream-again]="dream $two --steps 1 --per-class 2 --threads 1 --out again --force"
    [import]="import ../inputs/weights.deflated --classes ../inputs/labels --out new.safetensors"
    [import-old]="import ../inputs/weights.old --as cifar-resnet20 --out new.safetensors"
    [import-safetensors]="import ../inputs/weights.safetensors --out new.safetensors"
    [export-onnx]="export $two --onnx new.onnx"
    [export-torch]="export $two --torch new.safetensors"
    [export-c]="export $two --c-header new.h"
    [learn-head]="learn ../inputs/imported.safetensors ../inputs/second --adapt head --threads 1 --out new.safetensors"
    [watch]="watch ../inputs/watched"
    [pack]="pack ../inputs/folders --out new.pack --size 14 --threads 1"
    [report]="report ../inputs/past --out new.html"
    [analyze-ledger]="analyze ledger ../inputs/past --method cwd --threads 1"
    [analyze-dkl]="analyze dkl ../inputs/past --method cwd --samples 5 --threads 1"
    [analyze-norms]="analyze norms ../inputs/past --json --threads 1"
    [analyze-gradient]="analyze gradient ../inputs/past --method cwd --threads 1"
    [analyze-cost]="analyze cost ../inputs/past --json --threads 1"
    [run]="run ../inputs/run.yaml --method cwd --threads 1 --checkpoint 0 --out run --resume"
    [reproduce]="$cell --data cifar100=../inputs/cifar100 --out paper"
    [reproduce-merge]="$cell --merge ../inputs/paper --out paper"
)
commands[api]="../inputs/learn.yaml ../inputs/first ../inputs/second ../inputs/pictures/grey.pgm \
    ../inputs/weights.safetensors new.safetensors"
commands[run-killed]=${commands[run]}
commands[run-two]=${commands[run]/cwd/cwd,rdfcil}
commands[run-done]=${commands[run]}

# execute FAULT COMMAND: in the folder `state`; the output goes to `out` and `message`, the system call that failed to `told`.
# Returns the program's code, 142 after too long a time. FAULT: none, heap:once:N and so on, or what calls.c understands.
execute() {
    local program=$program heap_fault=count:0 call_fault=()
    if [ "$2" = api ]; then program=$use_api; fi
    case $1 in
        none) ;;
        heap:*) heap_fault=${1#heap:} ;;
        *) call_fault=(RECOLLECT_CALLS="$1" RECOLLECT_CALLS_TOLD=../told) ;;
    esac
    rm -f told
    (cd state && TMPDIR=temporary exec env "${call_fault[@]}" RECOLLECT_HEAP=$heap_fault RECOLLECT_HEAP_LOG=../calls \
        RECOLLECT_CALLS_LOG=../kinds ${names:+RECOLLECT_CALLS_NAMES=../names} RECOLLECT_HEAP_SECONDS=$limit LD_PRELOAD="$calls $heap" "$program" ${commands[$2]} \
        <../inputs/list >../out 2>../message) 2>/dev/null
}

# prepare COMMAND: makes `before`, what a command finds in its folder.
prepare() {
    rm -rf before
    mkdir -p before/temporary
    case $1 in
        learn-json)
            echo "an earlier model" >before/old.safetensors
            chmod 600 before/old.safetensors
            ;;
        dream-again) mkdir before/again && echo "an earlier picture" >before/again/all.png ;;
        learn-resume)
            rm -f log
            kill_at count:0 learn-resume new.safetensors.part
            killed=$(grep 'rename .*new.safetensors.part' log | tail -n 1 | cut -d' ' -f1 || true)
            rm -f before/new.safetensors log
            kill_at "kill:$killed" learn-resume new.safetensors.part
            [ -e before/new.safetensors.part ] || fail "the lesson was not killed half-way"
            ;;
        run-done) kill_run count:0 ;;
        run-killed) # with its last checkpoint but one, and one that is written, but has another name yet
            mkdir before/run
            rm -f log
            kill_run count:0
            killed=$(grep 'rename .*/cwd/checkpoint' log | tail -n 1 | cut -d' ' -f1 || true)
            rm -rf before/run log
            kill_run "kill:$killed"
            [ -e before/run/cwd/checkpoint.safetensors ] || fail "the run was not killed half-way"
            ;;
    esac
}
kill_run() { kill_at "$1" run run/; } # FAULT
kill_at() { # FAULT COMMAND UNDER
    (cd before && env LD_PRELOAD="$fault $heap" RECOLLECT_FAULT_UNDER="$3" RECOLLECT_FAULT="$1" \
        RECOLLECT_FAULT_LOG=../log "$program" ${commands[$2]} >/dev/null 2>&1 || true) 2>/dev/null
}

# ---- one point --------------------------------------------------------------------------------------------------------
violated() { # WHAT
    local text=${*//$'\n'/; }
    violations=$((violations + 1))
    echo "VIOLATION: $command, $at$([ ! -e told ] || echo " ($(<told))"): ${text:0:400}"
}

# differs A B: the differences between two folders, if any. Logs tell how much memory a process held, which is not the same
# in one that goes on with a run.
differs() {
    local log file
    diff -rq -x events.jsonl -x scalars.csv -x '*tfevents*' "$1" "$2" 2>&1 || true
    diff <(logs_in "$1") <(logs_in "$2") || true
    diff <(modes_in "$1") <(modes_in "$2") || true
    for log in "$1"/**/events.jsonl "$1"/**/scalars.csv "$1"/**/*tfevents*; do
        file=$2${log#"$1"}
        case $log in
            *jsonl) cmp <(sed 's/"memory":[0-9]*,//' "$log") <(sed 's/"memory":[0-9]*,//' "$file") ;;
            *csv) cmp <(cut -d, -f1-14,16- "$log") <(cut -d, -f1-14,16- "$file") ;;
            *) [ "$(stat -c %s "$log")" = "$(stat -c %s "$file")" ] || echo "$log has another size" ;;
        esac 2>&1 || true
    done
}
modes_in() { (cd "$1" && find . -type f -printf '%m %p\n' | sort); }
logs_in() { (cd "$1" && find . -name events.jsonl -o -name scalars.csv -o -name '*tfevents*' | sort); }

# What could not be removed is left, and nothing else.
remove_unremoved() { if [[ $at == remove:* ]]; then rm -f state/**/*.tmp-* state/*.part state/*.part.log; fi; }

# Pictures of a dream get their names one after the other when all of them are written. If the disk fails in the midst of
# that, what is there are whole pictures.
check_pictures() {
    local picture
    for picture in state/{dreams,again}/*; do
        cmp -s "$picture" "expected.$command${picture#state}" || cmp -s "$picture" "before${picture#state}" ||
            violated "$picture is not a picture of this dream"
        rm "$picture"
        if [ -e "before${picture#state}" ]; then cp "before${picture#state}" "$picture"; fi
    done
}

# A model that could not be saved at its place may be elsewhere, if the message says so.
check_elsewhere() {
    local elsewhere=(state/{.,temporary}/recollect-*.safetensors)
    if [[ $command == learn* && ${#elsewhere[@]} -eq 1 && $(<message) == *"saved as '${elsewhere[0]#state/}'"* ]]; then
        cmp -s "${elsewhere[0]}" "expected.$command"/*.safetensors || violated "a wrong model was saved elsewhere"
        rm "${elsewhere[0]}"
    fi
}

# What a refused command leaves must be what it found, but a model that is saved, here or elsewhere, as the message says.
check_refused() {
    local left restored=false
    [[ $(<message) == *recollect:\ * ]] || violated "no message: $(<message)"
    remove_unremoved
    if [[ $command == pack && -e state/new.pack.part.log ]]; then # goes on when it is asked again
        execute none "$command" || { violated "code $? when asked again: $(<message)"; return; }
        left=$(differs state "expected.$command")
    elif [[ $command == learn-resume ]]; then # goes on, unless the model is there
        check_elsewhere
        execute none "$command" || [[ $(<message) == *"'new.safetensors' is there already"* ]] ||
            { violated "code $? when asked again: $(<message)"; return; }
        left=$(rm -f state/new.safetensors.part; differs state "expected.$command")
    elif [[ $command == run* || $command == reproduce* ]]; then
        for left in state/{run,paper}/**/*.tmp-*; do
            [ -e "before${left#state}" ] || violated "left over: $left"
        done
        execute none "$command" || { violated "code $? when resumed: $(<message)"; return; }
        cmp -s out "expected.$command.out" || [[ $command != run-done ]] ||
            violated "resumed, it says: $(diff out "expected.$command.out" || true)"
        left=$(differs state "expected.$command")
    elif [[ $command == learn*-json && $(<message) == *"was saved as '"*"', but cannot be described"* ]]; then
        left=$(differs state "expected.$command")
    else
        check_elsewhere
        if [[ $command == dream* && -e told && $(<message) == *"is written and in its place"* ]]; then check_pictures; fi
        if [[ $command == dream* && -e told && $(<message) == *"cannot replace '"* ]]; then check_pictures; fi
        if [[ $command == dream* ]]; then rmdir state/dreams 2>/dev/null || true; fi # an empty folder is nobody's loss
        if [ "$command" = api ]; then rm -rf state/new.safetensors.dreams; fi # of a call that had succeeded
        left=$(differs state before)
        if [ -z "$left" ]; then restored=true; fi
        if [ -n "$left" ] && [[ -e told && $(<message) == *"is written"*", but "* ]]; then
            left=$(differs state "expected.$command")
        fi
    fi
    [ -z "$left" ] || violated "half done: $left; $(<message)"
    clean=$restored
}

try() { # FAULT
    local code=0 at=$1 different
    if ! $clean; then
        rm -rf state
        cp -r before state
    fi
    clean=false # again what it was before, as far as one knows
    execute "$1" "$command" || code=$?
    case $code in
        0)
            unharmed=$((unharmed + 1))
            if [[ -e told && ${commands[$command]} == *--skip-broken* && $(<message) == *"skipped: "* ]]; then return; fi
            if [[ -e told && $command == report ]] && grep -q 'Not shown: .*, which cannot be read' state/new.html; then return; fi
            cmp -s out "expected.$command.out" || violated "code 0, but stdout differs: $(diff out "expected.$command.out" || true)"
            remove_unremoved
            different=$(differs state "expected.$command")
            [ -z "$different" ] || violated "code 0, but $different"
            if $reads_only && [ -z "$different" ]; then clean=true; fi
            ;;
        1) check_refused ;;
        *) violated "code $code: $(<message)" ;;
    esac
}

# ---- all of them ------------------------------------------------------------------------------------------------------
# Which requests of so many, one a line.
choose() {
    local all=$1 i
    if [ "$points" = all ] || [ "$points" -ge "$all" ]; then
        seq "$all"
        return
    fi
    for ((i = 0; i < points; i++)); do
        if ((i % 3 == 1)); then
            echo $((1 + (RANDOM * 32768 + RANDOM) % all))
        else
            echo $((points == 1 ? 1 : 1 + (all - 1) * i / (points - 1)))
        fi
    done
}

# What a command does without a fault: `expected.COMMAND`, `expected.COMMAND.out`, and the number of its requests, which
# must be the same twice.
expect() { # COMMAND
    local command=$1 again
    [ ! -e "expected.$command" ] || return 0
    prepare "$command"
    for again in 0 1; do
        rm -rf state
        cp -r before state
        rm -f names
        names=1 execute none "$command" || fail "$command without a fault: code $?: $(<message)"
        if [ $again -eq 1 ]; then
            [ "$(<calls)" = "$(<"expected.$command.calls")" ] || fail "$command: requests cannot be numbered"
            [ -z "$(differs state "expected.$command")" ] || fail "$command: not the same twice"
        else
            mv state "expected.$command"
            mv out "expected.$command.out"
            mv calls "expected.$command.calls"
            mv kinds "expected.$command.kinds"
            mv names "expected.$command.names" 2>/dev/null || touch "expected.$command.names"
        fi
    done
    case $command in
        run-killed | run-done) # ends as a run does that was left alone
            expect run
            [ -z "$(differs "expected.$command" expected.run)" ] ||
                fail "$command: $(differs "expected.$command" expected.run)"
            ;;
    esac
}

# What fails in a command, one a line.
faults() { # COMMAND
    local all=$1 kind way number
    if [[ $points == *:* ]]; then
        echo "$points"
        return
    fi
    if [[ " $sweeps " == *" heap "* ]]; then
        choose "$(<"expected.$1.calls")" | sed 's/.*/heap:once:&\nheap:from:&/'
    fi
    [[ " $sweeps " == *" calls "* ]] || return 0
    if [[ $points != all && -n ${unseen[$1]:-} ]]; then
        grep -anE "${unseen[$1]}" "expected.$1.names" | sed 's/\([0-9]*\):.*/eio:once:\1/'
    fi
    [[ $points == all || ${#only[@]} -gt 0 || " ${swept[*]} " == *" $1 "* ]] || return 0
    while read -r kind all; do
        [ "$all" -gt 0 ] || continue
        for way in ${ways[$kind]}; do
            if [ "$points" = all ]; then
                seq -f "$kind:$way:%.0f" "$all"
            else
                for ((number = 0; number < (points + 11) / 12; number++)); do # there are 12 kinds and ways
                    echo "$RANDOM $kind:$way:$((1 + (RANDOM * 32768 + RANDOM) % all))"
                done
            fi
        done
    done <"expected.$1.kinds" | if [ "$points" = all ]; then cat; else sort -n | head -n $(((points + 1) / 2)) | cut -d' ' -f2; fi
}
sweeps=${SWEEPS-heap calls}
# A sample without names takes system calls of those commands whose every call has been tried without a violation.
swept=(info info-machine predict eval learn-resume dream import export-onnx pack)
# Calls whose failure once went unseen. Every sample takes them.
declare -A unseen=(
    [predict-formats]='look at .*(bar-plain-cyan/others|/cross-plain-yellow)$'
    [eval]='look at .*/first/disc-plain-red$'
    [eval-folders]='look at .*/folders/(train|val|val/bar-plain-cyan)$'
    [learn-json]='rights .*/old.safetensors'
    [learn-more]='look at .*/triangle-plain-blue$'
    [learn-resume]='list .*/state$'
    [export-onnx]='look at new.onnx$'
    [analyze-ledger]='look at .*/joint/results.json$'
    [analyze-norms]='look at .*/joint/results.json$'
    [run-killed]='(open|read) .*/task-2-dreams.png$'
)
# (Removing is what cleans up, so it fails once alone. A call that signals cut short again and again would never end.)
declare -A ways=([eio]="once from" [enospc]="once from" [edquot]=once [eintr]="once every" [short]="once every"
    [limits]="once from" [remove]=once)

sweep() { # COMMAND
    local command=$1 all point before unharmed=0 tried=0 violations=0 began=$SECONDS clean=false reads_only=false
    if all_tried "$command" || time_is_up; then return; fi
    expect "$command"
    prepare "$command"
    if [ -z "$(differs before "expected.$command")" ]; then reads_only=true; fi
    all=0
    if [[ " $sweeps " == *" heap "* ]]; then all=$(<"expected.$command.calls"); fi
    if [[ " $sweeps " == *" calls "* ]]; then
        all=$((all + $(awk '{ n += $2 } END { print n }' "expected.$command.kinds")))
    fi
    faults "$command" >faults
    outcome "$command" all "$(wc -l <faults)"
    for point in $(to_try "$command" <faults); do
        if time_is_up; then break; fi
        before="$unharmed $violations"
        try "$point"
        tried=$((tried + 1))
        case "$unharmed $violations" in
            "$before") outcome "$command" "$point" refused ;;
            *" ${before#* }") outcome "$command" "$point" unharmed ;;
            *) outcome "$command" "$point" violation ;;
        esac
    done
    # Requests of the command, points that were tried, unharmed, refused, violations, seconds.
    echo "figures: $command $all $tried $unharmed $((tried - unharmed)) $violations $((SECONDS - began))"
    total=$((total + tried)) wrong=$((wrong + violations))
}

total=0 wrong=0
for command in "${order[@]}"; do
    # (A sample without names leaves out `reproduce`, which takes a second each time: it is a run and what
    # reproduce-merge does.)
    if [[ ${#only[@]} -eq 0 && ($points == all || $command != reproduce) || " ${only[*]} " == *" $command "* ]]; then
        sweep "$command"
    fi
done
[ $wrong -eq 0 ] || fail "$wrong violations in $total points"
echo "$name: passed, $total points in $SECONDS s"
