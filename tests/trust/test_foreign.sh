#!/usr/bin/env bash
# Every file that --resume reads says which run it is of. Each one in turn is replaced by that of a run that differs in
# one thing: it is refused, named, with what differs and what to do, and nothing in the folder is touched. Models of a run
# serve learn, predict, eval and dream wherever they are copied to.
#
# usage: test_foreign.sh PROGRAM MAKE_IMAGES FAULT_LIBRARY
. "$(dirname "$0")/common.sh"
fault=$3

# begin FOLDER METHOD ARGUMENT...: a run that is killed in the midst of its second task, by an operation on its fourth
# checkpoint or so.
begin() {
    local folder=$1 method=$2 code=0
    shift 2
    (exec env LD_PRELOAD="$fault" RECOLLECT_FAULT_UNDER="/$folder/$method/checkpoint" RECOLLECT_FAULT=kill:70 "$program" \
        run small.yaml --method "$method" --threads 1 --checkpoint 0 --out "$work/$folder" "$@") >/dev/null 2>message &
    wait $! 2>/dev/null || code=$?
    [ $code -eq 137 ] || fail "$folder: code $code, expected to be killed: $(cat message)"
    [ -s "$folder/$method/checkpoint.safetensors" ] && grep -q '"tasks_done": 1' "$folder/$method/results.json" ||
        fail "$folder was not killed in its second task"
    rm -f "$folder"/*/*.tmp-*
}
# All files but the summary, which a run writes that fails, too.
state() { (cd "$1" && find . -type f ! -name 'summary.*' -exec md5sum {} + | sort); }

run --out whole >/dev/null 2>&1
begin mine cwd
state mine >state

# refused WHAT FILE PATTERN [ARGUMENT...]: by a resume of the copy of mine/ in run/, which stays as it is.
refused() {
    local what=$1 file=$2 pattern=$3 code=0
    state run >before
    run --out run --resume "${@:4}" >/dev/null 2>message || code=$?
    [ $code -eq 1 ] || fail "$what as $file: code $code, expected 1: $(cat message)"
    grep -qE -- "$pattern" message || fail "$what as $file: the message lacks '$pattern': $(cat message)"
    state run | cmp -s - before || fail "$what as $file: the folder has changed: $(state run | diff - before)"
}
# What the message says of a file: how it is named, and what to do.
way_out() {
    case $1 in
        *results.json) echo 'its tasks are done anew' ;;
        *task-*) echo 'bring that of this run back' ;;
        *checkpoint*) echo 'without this file --resume begins task 2 anew' ;;
        *events.jsonl) echo 'the log begins anew' ;;
        config.yaml) echo 'it is written anew' ;;
        run.json) echo 'another --out' ;;
    esac
}
replaced=0
# replace WHAT DIFFERENCE FOLDER [METHOD]: every file of mine/ by that of FOLDER, one at a time. DIFFERENCE: what models and
# results say of it.
replace() {
    local what=$1 difference=$2 other=$3 method=${4:-cwd} file from pattern
    local files=(cwd/{results.json,task-1.safetensors,checkpoint.safetensors,events.jsonl})
    # What the methods of a run share is the same for all of them.
    [ "$method" != cwd ] || files+=(run.json config.yaml first-task/{results.json,task-1.safetensors,events.jsonl})
    for file in "${files[@]}"; do
        from=$other/${file/#cwd/$method}
        cmp -s "$from" "mine/$file" && continue
        rm -rf run && cp -r mine run && cp "$from" "run/$file"
        case $file in
            run.json) pattern="the run in run has .* but .* is asked for now|the data is not what the run in run began with" ;;
            config.yaml) pattern='run/config.yaml has .*, but the run beside it' ;;
            *checkpoint* | *events*) pattern="run/$file belongs to another run, with " ;;
            *) pattern="run/$file belongs to another run, with .*$difference" ;;
        esac
        refused "$what" "$file" "$pattern.*$(way_out "$file")"
        replaced=$((replaced + 1))
    done
}

begin small cwd --set size=16
replace "another image size" "size '16', where this run has '0'" small
begin seed cwd --seed 2
replace "another seed" "seed '2', where this run has '1'" seed
begin batch cwd --set batch=8
replace "another batch" "batch '8', where this run has '16'" batch
begin epochs cwd --set epochs=4
replace "other epochs" "epochs '4', where this run has '3'" epochs
begin order cwd --set class_order=5,4,3,2,1,0
replace "another order" "class_order '5,4,3,2,1,0'.*" order
begin sizes cwd --tasks 2,2,2
replace "the same tasks, asked for otherwise" "task_sizes '2,2,2'" sizes
begin method rdfcil
replace "another method" "another method" method rdfcil
mv photos mine-photos
"$make_images" procedural test 0 6 24 ppm photos
begin images cwd
rm -rf photos
cp -r mine-photos photos
mv "photos/$(ls photos | head -n 1)" photos/another-name
begin names cwd
rm -rf photos
mv mine-photos photos
replace "other images" "other data" images
replace "another name of a class" "other data" names
echo "$replaced files of other runs: all refused"

# One pixel, in a corner, of a test image.
cp -r photos elsewhere
for image in elsewhere/*/*.ppm; do printf '\0' | dd of="$image" bs=1 seek=$(($(stat -c %s "$image") - 1)) conv=notrunc 2>/dev/null; done
rm -rf run && cp -r mine run
refused "other corners of the images" "the data" "the data is not what the run in run began with" --data "$work/elsewhere"
rm -rf elsewhere

# ---- files of the same run in each other's place -----------------------------------------------------------------------
rm -rf run && cp -r mine run && cp mine/first-task/task-1.safetensors run/cwd/
refused "the first task of all" cwd/task-1.safetensors "run/cwd/task-1.safetensors belongs to another run, with another method"
rm -rf run && cp -r mine run && cp whole/cwd/task-2.safetensors run/cwd/task-1.safetensors
refused "the model of the next task" cwd/task-1.safetensors "model of 2 tasks with 4 classes, expected 1 with 2"
rm -rf run && cp -r mine run && cp mine/cwd/task-1.safetensors run/first-task/
refused "the first task of a method" first-task/task-1.safetensors "belongs to another run, with another method"

# ---- leftovers in a folder that holds no run ---------------------------------------------------------------------------
rm -rf run && cp -r seed run && rm run/run.json run/config.yaml
code=0
run --out run >/dev/null 2>message || code=$?
[ $code -eq 1 ] && grep -q "run/first-task/results.json belongs to another run, with other settings.*seed '2'" message ||
    fail "leftovers of another run: code $code: $(cat message)"

# ---- what is done is looked at, too, and nothing of others is removed --------------------------------------------------
rm -rf run && cp -r whole run && cp seed/cwd/checkpoint.safetensors run/cwd/
refused "another seed, when all is done" cwd/checkpoint.safetensors 'checkpoint.safetensors belongs to another run, with other settings'
rm -rf run && cp -r whole run && cp seed/cwd/task-1.safetensors run/cwd/
refused "another seed, when all is done" cwd/task-1.safetensors "task-1.safetensors belongs to another run.*or remove it"
rm run/cwd/task-1.safetensors run/cwd/task-2.safetensors # to save space
run --out run --resume >/dev/null 2>message || fail "without old models: $(cat message)"

# ---- runs of earlier versions -------------------------------------------------------------------------------------------
rm -rf run && cp -r mine run
sed -i '/"format": "recollect-run-/d' run/run.json
refused "an earlier version" run.json "begun by recollect [0-9.]+, whose files do not say all that this version asks of them .*another --out"
rm -rf run && cp -r mine run
sed -i '/"fingerprint": "method=/d' run/cwd/results.json
refused "no fingerprint" cwd/results.json 'run/cwd/results.json does not say which run it belongs to: .*done anew'

# ---- a log that a crash has cut short, or lost --------------------------------------------------------------------------
for bytes in 0 100 3000; do
    rm -rf run && cp -r mine run
    head -c $bytes mine/cwd/events.jsonl >run/cwd/events.jsonl
    run --out run --resume >/dev/null 2>message || fail "a log of $bytes bytes: $(cat message)"
    [ "$(grep -vc '^{"event".*}$' run/cwd/events.jsonl)" -eq 0 ] && ! grep -q '"event".*"event"' run/cwd/events.jsonl ||
        fail "a log of $bytes bytes: a line is torn"
    [ "$(grep -c '"event":"run"' run/cwd/events.jsonl)" -eq 1 ] || fail "a log of $bytes bytes: it does not say whose it is"
    cmp -s run/cwd/task-3.safetensors whole/cwd/task-3.safetensors || fail "a log of $bytes bytes: other bits"
done
echo 'no log' >run/cwd/events.jsonl
rm run/cwd/results.json
refused "something else" cwd/events.jsonl 'cwd/events.jsonl is not the log of a run'

# ---- mine is what it was, and goes on --------------------------------------------------------------------------------------
state mine | cmp -s - state || fail "the run itself has changed"
mkdir away && mv mine away/mine
run --out away/mine --resume >/dev/null 2>message || fail "after all of it: $(cat message)"
same away/mine whole "after all of it, in another folder"

# ---- models serve everywhere ----------------------------------------------------------------------------------------------
cp whole/cwd/task-2.safetensors copied.safetensors
for command in "predict copied.safetensors photos" "eval copied.safetensors photos" "info copied.safetensors" \
    "dream copied.safetensors --steps 2 --threads 1 --out dreams"; do
    # shellcheck disable=SC2086
    "$program" $command >/dev/null 2>message || fail "$command: $(cat message)"
done
"$make_images" procedural train 6 8 24 ppm more
"$program" learn copied.safetensors more --out learnt.safetensors --epochs 1 --set min_steps=1 --set inversion_steps=2 \
    --threads 1 >/dev/null 2>message || fail "learn: $(cat message)"
head -c 20000 copied.safetensors | grep -a 'method=cwd settings=' >/dev/null || fail "a model does not say which run it belongs to"
! head -c 20000 learnt.safetensors | grep -a 'method=cwd settings=' >/dev/null || fail "a model that has learnt more still names the run"
"$program" predict learnt.safetensors photos >/dev/null 2>message || fail "a model that is of no run: $(cat message)"
echo "$name: passed in $SECONDS s"
