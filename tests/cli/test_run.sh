#!/usr/bin/env bash
# recollect run from outside: files and what is in them, a folder is never overwritten, tasks as they are asked for, the
# edges of the task stream, configurations of others, the forecast. (What happens when it is killed or cannot write is in
# tests/trust.)
#
# usage: test_run.sh PROGRAM MAKE_IMAGES
set -euo pipefail
program=$(realpath "$1") make_images=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "test_run: FAILED: $*" >&2; exit 1; }

"$make_images" procedural train 0 10 30 ppm photos
cat >small.yaml <<YAML
data: photos
task_sizes: 6,2,2
images_per_class: 20
net: resnet-small
net_width: 4
generator: generator-small
generator_width: 8
noise: 16
batch: 16
epochs: 2
refine_epochs: 1
milestone: [1]
inversion_steps: 5
YAML
run=("$program" run small.yaml --threads 1)

# refused CODE PATTERN ARGUMENT...: ends with the code and a message that holds the pattern.
refused() {
    local wanted=$1 pattern=$2 code=0
    shift 2
    "$program" run "$@" >/dev/null 2>message || code=$?
    [ $code -eq "$wanted" ] || fail "run $*: code $code, expected $wanted: $(cat message)"
    grep -qE -- "$pattern" message || fail "run $*: the message lacks '$pattern': $(cat message)"
}

# ---- what a run leaves ------------------------------------------------------------------------------------------------
"${run[@]}" --out whole --method finetune,cwd,joint --seed 3 >whole.txt 2>whole.log
grep -qE 'training, epoch [0-9]/[0-9]: [0-9]+ % of all' whole.log || fail "no progress: $(cat whole.log)"
! grep -nE '\? (left|in all)|[,:]$' whole.log || fail "progress shows times that nobody knows"
grep -qE '^accuracy in % +A_1 +A_2 +A_3 +last +mean +forgets +old +new +keeps$' whole.txt || fail "no table: $(cat whole.txt)"
for method in Fine-tuning CwD 'Joint training'; do grep -q "^$method " whole.txt || fail "no row for $method"; done
for file in run.json config.yaml cwd/results.json cwd/results.txt cwd/tasks.csv cwd/classes.csv cwd/confusion.csv \
    cwd/events.jsonl cwd/task-1.safetensors cwd/task-3.safetensors finetune/task-3.safetensors; do
    [ -s "whole/$file" ] || fail "$file is missing"
done
[ -z "$(find whole -name 'checkpoint*')" ] || fail "a finished run left a checkpoint"

# holds FILE NAME...: the file holds each of the names.
holds() {
    local file=$1 text
    shift
    for text in "$@"; do grep -qF -- "$text" "whole/$file" || fail "$file does not say '$text'"; done
}
stages=(inversion training refinement estimation evaluation)
holds cwd/results.json '"last_accuracy"' '"mean_accuracy"' '"by_task"' '"forgetting"' '"backward_transfer"' \
    '"old_accuracy"' '"new_accuracy"' '"top5"' '"head_norm"' '"old_norm"' '"new_norm"' '"confusion"' '"classes"' \
    '"config"' '"learning_rate"' '"seed": 3' '"version"' '"command_line"' 'run small.yaml --method finetune,cwd,joint' \
    '"seconds"' "${stages[@]/#/\"}"
holds cwd/events.jsonl '"event":"run"' '"event":"step"' '"event":"task"' '"accuracy"' '"mean_accuracy"' '"by_task"' \
    '"forgetting"' '"backward_transfer"' '"old_accuracy"' '"top5"' '"new_norm"' '"evaluation"' '"command_line"' '"seed":3' \
    '"version"' '"config"' '"loss"' '"dce"' '"hkd"' '"rkd"' '"war"'
holds cwd/tasks.csv 'task,classes,accuracy,mean_accuracy,top5,old_accuracy,new_accuracy,forgetting,backward_transfer,old_norm,new_norm,stored_images,stored_generative_model,stored_statistics,inversion_seconds,training_seconds,refinement_seconds,estimation_seconds,evaluation_seconds,task_1,task_2,task_3'
holds cwd/classes.csv 'class,name,task,accuracy,top5,head_norm'
holds cwd/results.txt 'last accuracy (A_3)' 'mean accuracy' '(of A_1 to A_3)' 'forgetting' 'backward transfer' 'top-5' \
    'after task, accuracy on task' 'norms of the head' 'seed 3' 'run small.yaml' 'taken for class' "${stages[@]}"
[ "$(wc -l <whole/cwd/tasks.csv)" -eq 4 ] && [ "$(wc -l <whole/cwd/classes.csv)" -eq 11 ] &&
    [ "$(wc -l <whole/cwd/confusion.csv)" -eq 11 ] || fail "the tables do not have 3 tasks and 10 classes"
# The time of the first task, which all share, is in every method's results.
awk -F, 'NR == 2 && $16 > 0 { found = 1 } END { exit !found }' whole/joint/tasks.csv || fail "no time for the first task"
# Models that a method without estimation leaves can be used.
for method in finetune joint cwd; do
    "$program" info "whole/$method/task-3.safetensors" >/dev/null 2>message || fail "$method: $(cat message)"
done

# Each task names the program that finished it; for the first, which all share, that may be another.
sed 's/"commit": "[^"]*"/"commit": "older"/' whole/first-task/results.json >named
mv named whole/first-task/results.json
"${run[@]}" --out whole --method finetune,cwd,joint,rdfcil --seed 3 --stop-after 2 --resume >/dev/null 2>message ||
    fail "one more method: $(cat message)"
[ "$(grep -c '"commit": "older"' whole/rdfcil/results.json)" -eq 1 ] || fail "the first task has lost who finished it"

# What each source of replay keeps, after the first task, which most methods share, and after the second: 10 images of a
# buffer, all 120 or 160 that were shown, a generative model, class statistics, nothing. In the results and in the file.
"${run[@]}" --out kept --stop-after 2 --set buffer_size=10 --set vae_width=8 --set pixel_batches=1 --set pixel_steps=2 \
    --method er,joint,real-hkd,dgr,cwd,rdfcil,deepinversion-pixels,finetune >/dev/null 2>message || fail "$(cat message)"
kept() { awk -F, -v task="$2" '$1 == task { print $12, $13, $14 }' "kept/$1/tasks.csv"; } # kept METHOD TASK
read -r ten _ < <(kept er 1)
read -r _ model _ < <(kept dgr 1)
read -r _ _ six < <(kept cwd 1)
read -r _ _ eight < <(kept cwd 2)
[ "$ten" -gt 1000 ] && [ "$model" -gt 1000 ] && [ "$six" -gt 0 ] && [ "$eight" -gt "$six" ] || fail "nothing is kept"
while read -r method first second; do
    [ "$(kept "$method" 1)" = "${first//-/ }" ] && [ "$(kept "$method" 2)" = "${second//-/ }" ] ||
        fail "$method keeps $(kept "$method" 1), then $(kept "$method" 2), expected $first and $second"
done <<KEPT
er $ten-0-0 $ten-0-0
joint $((12 * ten))-0-0 $((16 * ten))-0-0
real-hkd $((12 * ten))-0-0 $((16 * ten))-0-0
dgr 0-$model-0 0-$model-0
cwd 0-0-$six 0-0-$eight
rdfcil 0-0-0 0-0-0
deepinversion-pixels 0-0-0 0-0-0
finetune 0-0-0 0-0-0
KEPT
while read -r method free bytes text; do
    file=kept/$method/task-2.safetensors
    "$program" info "$file" | grep "^kept of images $text" >/dev/null || fail "info of $method: $("$program" info "$file")"
    "$program" info "$file" --json | grep "$bytes.*\"data_free\":$free" >/dev/null || fail "info --json of $method"
done <<KEPT
er false "images":$ten .*: 10 images and their labels, of the [0-9]* that were shown; not data-free
joint false "images":0 nothing in the file, but Joint training is given the old images again: not data-free
dgr false "generative_model":$model .*: an autoencoder that makes images, no image itself; not data-free
cwd true "images":0 .*: 8 class means and one covariance of [0-9]* features; no image is in the file
finetune true "images":0 nothing: Fine-tuning stores no statistics, no image is in the file
KEPT

"${run[@]}" --out every --method all --stop-after 1 >/dev/null 2>message || fail "--method all: $(cat message)"
# What 'methods' says is data-free is what the results have measured.
"$program" methods | awk 'NR == 1 { at = index($0, "data-free") } NR > 1 { print $1, substr($0, at, 3) }' >claimed
[ "$(wc -l <claimed)" -gt 20 ] || fail "these are not all methods: $(cat claimed)"
while read -r method free; do
    [ -s "every/$method/results.json" ] || fail "--method all did not run $method"
    measured=$(grep -q '"data_free": true' "every/$method/results.json" && echo yes || echo no)
    [ "$measured" = "$free" ] || fail "$method: data-free $free, measured $measured"
done <claimed

# ---- asked for again ----------------------------------------------------------------------------------------------------
refused 1 '--resume goes on with it' small.yaml --out whole
"${run[@]}" --out whole --seed 3 --resume >again.txt 2>/dev/null
grep '^CwD ' whole.txt | cmp -s - <(grep -m 1 '^CwD ' again.txt) || fail "a finished run shows other results: $(cat again.txt)"
"${run[@]}" --out other --seed 4 --stop-after 2 >/dev/null 2>&1
! cmp -s whole/cwd/task-2.safetensors other/cwd/task-2.safetensors || fail "the seed changes nothing"
# A method that comes later begins from the same first task, and two runs give the same bits.
"${run[@]}" --out later --seed 3 --method finetune --stop-after 2 >/dev/null 2>&1
"${run[@]}" --out later --seed 3 --method cwd --resume >/dev/null 2>message || fail "a method added later: $(cat message)"
cmp -s whole/cwd/task-3.safetensors later/cwd/task-3.safetensors || fail "a method added later ended differently"
cmp -s whole/finetune/task-2.safetensors later/finetune/task-2.safetensors || fail "fine-tuning alone ended differently"
# The summary covers all that the folder has, also of methods that were not asked for this time.
"${run[@]}" --out later --seed 3 --method cwd --stop-after 2 --resume >later.txt 2>message || fail "$(cat message)"
[ "$(cut -d, -f1-2 later/summary.csv)" = $'method,runs\ncwd,1\nfinetune,1' ] || fail "it is not summed up: $(cat later/summary.csv)"
grep -q '^Fine-tuning .* 1/1 ' later.txt || fail "the summary lacks a method: $(cat later.txt)"

# Nothing that is there is replaced: not the configuration of somebody who works in the same folder, nor a summary.
mkdir mine && cp small.yaml mine/config.yaml
refused 1 "'mine/config.yaml' is there already, and a run would replace it" mine/config.yaml --out mine
refused 1 "'mine/config.yaml' is there already" mine/config.yaml --out mine --resume
cmp -s small.yaml mine/config.yaml || fail "a configuration was replaced"
grid=(small.yaml --out grid --method finetune --stop-after 1 --threads 1 --set class_order=published)
"$program" run "${grid[@]}" --orders 0 >/dev/null 2>message || fail "a grid of one order: $(cat message)"
cp grid/summary.json kept.json
refused 1 'grid holds runs already: --resume goes on with them and adds others' "${grid[@]}" --orders 1
refused 1 "'grid/summary.json' is there already" "${grid[@]}"
cmp -s grid/summary.json kept.json || fail "a summary was replaced"
"$program" run "${grid[@]}" --orders 0,1 --resume >/dev/null 2>message || fail "one more order: $(cat message)"
grep -qF 'note: grid/order-1 holds no run to go on with, so one begins there' message || fail "a new run is not told: $(cat message)"

# Orders in processes of their own, side by side, and then all of them: as one process would leave them.
mkdir apart
for order in 0 1; do
    "$program" run "${grid[@]}" --out "apart/order-$order" --order $order >/dev/null 2>"message$order" &
    apart[order]=$!
done
for order in 0 1; do wait "${apart[order]}" || fail "order $order alone: $(cat "message$order")"; done
"$program" run "${grid[@]}" --out apart --orders 0,1 --resume >apart.txt 2>message || fail "orders of two processes: $(cat message)"
grep -q ' 2/2 ' apart.txt || fail "orders of two processes are not summed up: $(cat apart.txt)"
for order in 0 1; do
    cmp -s {apart,grid}/order-$order/finetune/task-1.safetensors || fail "order $order of a process of its own is another one"
done

# Where stdout and stderr are closed, what is printed goes nowhere, not into the files of the run.
code=0
"${run[@]}" --out closed --method finetune --stop-after 2 >&- 2>&- || code=$?
[ $code -eq 1 ] || fail "closed output: code $code, expected 1"
"${run[@]}" --out closed --method finetune --stop-after 2 --resume >/dev/null 2>message || fail "closed output: $(cat message)"
! grep -q 'accuracy' closed/run.json || fail "results were printed into run.json"
# Nor does a run end because nobody reads what it prints.
code=0
"${run[@]}" --out piped --method finetune --stop-after 2 2>/dev/null | true || code=${PIPESTATUS[0]}
[ "$code" -eq 1 ] || fail "a closed pipe: code $code, expected 1"
[ -s piped/finetune/task-2.safetensors ] || fail "a closed pipe ended the run"

# The command line comes back as it can be typed again.
ln -s photos "my photo's"
"${run[@]}" --out typed --method finetune --stop-after 1 --data "my photo's" >/dev/null 2>message || fail "$(cat message)"
line=$(sed -n '1p' typed/finetune/results.txt)
[ "$line" = "recollect run small.yaml --method finetune --data 'my photo'\\''s' --out typed --stop-after 1 --threads 1" ] ||
    fail "the command line is written as $line"
# A path that is not UTF-8 is no obstacle: neither YAML nor JSON holds it.
ln -s photos $'K\374che'
for resume in '' --resume; do
    "${run[@]}" --out latin --method finetune --stop-after 1 --data $'K\374che' $resume >/dev/null 2>message ||
        fail "a path in Latin-1 $resume: $(cat message)"
done
# However long it is.
part=$(printf 'x%.0s' {1..200})
long=$part/$part/$part/$part/$part/$part/$part/$part/$part/$part/$part
mkdir -p "$long"
cp small.yaml "$long"
"${run[0]}" run "$long/small.yaml" --threads 1 --out lengthy --method finetune --stop-after 1 >/dev/null 2>message ||
    fail "a long command: $(cat message)"
grep -qF "\"command_line\": \"recollect run $long/small.yaml --method finetune --out lengthy --stop-after 1 --threads 1\"" \
    lengthy/run.json || fail "a long command line was cut: $(grep command_line lengthy/run.json)"

# ---- tasks --------------------------------------------------------------------------------------------------------------
tasks() { # tasks SIZES ARGUMENT...
    local sizes=$1
    shift
    rm -rf tried
    "${run[@]}" --out tried --stop-after 1 --method finetune --set task_sizes= "$@" >/dev/null 2>message ||
        fail "run $*: $(cat message)"
    [ "$(tr -d ' \n' <tried/finetune/results.json | grep -o '"task_sizes":\[[0-9,]*\]')" = "\"task_sizes\":[$sizes]" ] ||
        fail "run $*: not tasks of $sizes"
}
tasks 5,5 --set tasks=2
tasks 4,3,3 --set tasks=3                      # the first takes what does not divide
tasks 6,2,2 --set tasks=3 --set first_task=6
tasks 10 --set tasks=1
tasks 1,9 --set task_sizes=1,9
"${run[@]}" --out option --stop-after 1 --method finetune --tasks 4,6 >/dev/null 2>&1
grep -A3 task_sizes option/finetune/results.json | tr -d ' \n' | grep '\[4,6\]' >/dev/null || fail "--tasks 4,6"
refused 1 '5 classes after the first 5 do not divide into 2 tasks' small.yaml --out no --set task_sizes= --set tasks=3 --set first_task=5
refused 1 'the tasks have 9 classes together, the data has 10' small.yaml --out no --tasks 6,2,1
refused 1 'more classes than there are' small.yaml --out no --tasks 6,2,3
refused 2 "task_sizes is '10,0', expected 1 class or more for every task" small.yaml --out no --tasks 10,0
refused 1 '11 tasks, expected 1 to 10' small.yaml --out no --tasks 11
[ ! -e no ] || fail "a run that cannot be left a folder"

# ---- edges: tasks of one class, smaller than a batch, one old class ------------------------------------------------------
"${run[@]}" --out edges --method cwd,rdfcil --tasks 1,1,8 --set images_per_class=9 --set min_steps=4 >/dev/null 2>message ||
    fail "tasks of one class and nine images: $(cat message)"
! grep -q '"diversity"' <(grep '"task":2' edges/cwd/events.jsonl) || fail "one old class: there is a diversity loss"
grep -q '"diversity"' <(grep '"task":3' edges/cwd/events.jsonl) || fail "two old classes: there is no diversity loss"
grep '"task":2,"stage":"estimation"' edges/cwd/events.jsonl | grep '"steps":2,' >/dev/null || fail "estimation: not 1 + 1 batches"
grep '"task":3,"stage":"estimation"' edges/cwd/events.jsonl | grep '"steps":8,' >/dev/null || fail "estimation: not 4 + max(1, 0) * 4"
grep '"task":1,"stage":"training"' edges/first-task/events.jsonl | grep '"steps":4,' >/dev/null || fail "min_steps: not 4 steps"

# ---- configurations -------------------------------------------------------------------------------------------------------
"$program" run small.yaml --print-config >once.yaml
"$program" run once.yaml --print-config >twice.yaml
cmp -s once.yaml twice.yaml || fail "the printed configuration does not load as itself"
"$program" run once.yaml --print-config --data "it's here" >quoted.yaml
"$program" run quoted.yaml --print-config | cmp -s - quoted.yaml || fail "a quote in a path does not come back"
refused 2 "did you mean 'epochs'" small.yaml --set epoch=3
refused 2 'cwd' small.yaml --out x --method cvd
refused 1 "cannot open 'missing.yaml'" missing.yaml --out x
refused 2 'did you mean' small.yaml --print-config --set lambda_was=3
"${run[@]}" --out unread --stop-after 1 --method finetune,lwf --set lambda_war=3 --set kd_weight=2 >/dev/null 2>message
[ "$(grep "changes nothing" message)" = "warning: lambda_war changes nothing here; only these read it: cwd, cwd+, cwd-abd, \
cwd-without-dce, real-cwd" ] || fail "a setting that no method reads: $(cat message)"
echo 'lambda_harp: 3' >wrong.yaml
refused 2 "wrong.yaml.*'lambda_harp'; did you mean 'lambda_war'" wrong.yaml --print-config
refused 2 "there are .*cifar100-5" cifar100-6 --print-config

# ---- the forecast -----------------------------------------------------------------------------------------------------------
! grep -q forecast whole.log || fail "a forecast for a run of seconds"
"${run[@]}" --out long --set epochs=4000 --set inversion_steps=3000 >/dev/null 2>long.log &
pid=$!
for ((i = 0; i < 1200; i++)); do grep -q forecast long.log && break; sleep 0.1; done
kill -INT $pid
wait $pid || true
grep -qE '^forecast: about ([0-9]+:)?[0-9]+:[0-9]+ and [0-9.]+ [MG]B of memory' long.log || fail "no forecast: $(cat long.log)"
echo "test_run: passed in $SECONDS s"
