#!/usr/bin/env bash
# recollect analyze from outside: what it says of a small run, that it changes nothing there, and what it says of folders
# that are no run, or of one that is damaged. (interop_analysis holds the numbers against scipy's and scikit-learn's.)
#
# usage: test_analyze.sh PROGRAM MAKE_IMAGES
set -euo pipefail
program=$(realpath "$1") make_images=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "test_analyze: FAILED: $*" >&2; exit 1; }

"$make_images" procedural train 0 10 30 ppm photos
cat >small.yaml <<YAML
data: photos
class_order: seed
order: 3
task_sizes: 6,2,2
images_per_class: 20
net: resnet-small
net_width: 4
generator: generator-small
generator_width: 8
noise: 16
batch: 16
epochs: 3
refine_epochs: 1
milestone: [1]
inversion_steps: 5
test_mirror: true
YAML
"$program" run small.yaml --threads 1 --out run --method er,cwd,joint >/dev/null 2>run.log || fail "run: $(cat run.log)"

# analyze CODE ARGUMENT...: ends with the code; the results are in `said`, the message in `message`.
analyze() {
    local wanted=$1 code=0
    shift
    "$program" analyze "$@" --threads 1 >said 2>message || code=$?
    [ $code -eq "$wanted" ] || fail "analyze $*: code $code, expected $wanted: $(cat message)"
}
says() { grep -qE -- "$1" said || fail "'$1' is not said: $(cat said)"; }
complains() { grep -qE -- "$1" message || fail "the message lacks '$1': $(cat message)"; }
# number KEY: the values of that member, in order, of the JSON in `said`.
numbers() { sed -nE "s/^ *\"$1\": ([-0-9.e+]+|null),?\$/\1/p" said; }
before=$(find run -type f -exec cksum {} + | sort)

# ---- a file with all of it ---------------------------------------------------------------------------------------------
analyze 0 norms run --method cwd --json
cp said norms.json
for _ in 1 2; do # an earlier one is replaced
    analyze 0 norms run --method cwd --out found.json
    says '^CwD: mean norm'
    cmp norms.json found.json || fail "--out: not what --json prints"
    sed -i 's/cwd/rdfcil/' found.json
done
echo '{"mine": 1}' >mine.json
analyze 1 norms run --method cwd --out mine.json
complains "'mine.json' is there already and is no analysis: choose another --out"
grep -qx '{"mine": 1}' mine.json || fail "a file of somebody's was replaced"
analyze 1 norms run --method cwd --out no/where.json
complains "no/where.json"
analyze 0 norms run --method cwd --json --out both.json
cmp said both.json || fail "--json and --out differ"

# One image a class: the classifiers that need a covariance are left out.
"$program" run small.yaml --threads 1 --out single --method cwd --set images_per_class=1 --set batch=2 \
    >/dev/null 2>run.log || fail "run: $(cat run.log)"
analyze 0 ledger single
[ "$(grep -cE '^ +[123] +(6|8|10)( +[0-9]+\.[0-9][0-9]){2} +- +(-|[0-9.]+) +(-|[0-9.]+) +[0-9]+\.[0-9][0-9] +-$' said)" -eq 3 ] ||
    fail "one image a class: $(cat said)"

# ---- the ledger -------------------------------------------------------------------------------------------------------
analyze 0 ledger run --data photos --method cwd
says '^CwD: accuracy in % over all classes so far, by classifiers on the same features$'
says '^task classes  trained head  nearest mean  LDA true  LDA stored  LDA moved  probe  joint$'
[ "$(grep -cE '^ +[123] +(6|8|10)( +[0-9]+\.[0-9][0-9]){7}$' said)" -eq 3 ] || fail "three tasks: $(cat said)"
says '^the trained head after task 3: % of the images of each task$'
says '^task   right among its classes, when new     now   taken for a class of it   right$'
# Whoever is right is right among the classes of its task, and is taken for one of them.
[ "$(sed -n '/^the trained head/,/^how far/p' said | awk 'NF == 5 && $1 ~ /^[123]$/ && $5 <= $3 && $5 <= $4' | wc -l)" -eq 3 ] || fail "tasks: $(cat said)"
says '^task   stored: first task   all old   moved: first task   all old$'
[ "$(sed '1,/^how far/d' said | grep -cE '^ +[23]( +[0-9]+\.[0-9][0-9]){4}$')" -eq 2 ] || fail "distances of two tasks: $(cat said)"
says '^points lost after task 3:$'
says '^ *-?[0-9.]+  joint less probe: in the features$'
says '^ *-?[0-9.]+  probe less trained head: in the head$'
says '^ *-?[0-9.]+  LDA true less LDA stored: because stored statistics are out of date$'

# Where the data was, all methods, JSON. What the head gets is what the run got.
analyze 0 ledger run --json
numbers head >heads
for method in joint er cwd; do # in the order of the method table
    sed -nE '/^  "accuracy": \[/,/\]/s/^ *([0-9.]+),?$/\1/p' "run/$method/results.json"
done >expected
[ -s expected ] && paste heads expected | awk '{ if ($1 - $2 > 1e-9 || $2 - $1 > 1e-9) exit 1 }' ||
    fail "the head: $(cat heads), expected $(cat expected)"
[ "$(numbers stored | grep -vc null)" -eq 3 ] || fail "only CwD stores statistics: $(numbers stored)"
for method in joint er cwd; do # each ledger has the accuracies of joint training beside it
    sed -nE '/^  "accuracy": \[/,/\]/s/^ *([0-9.]+),?$/\1/p' run/joint/results.json
done >expected
paste <(numbers joint) expected | awk '{ if ($1 - $2 > 1e-9 || $2 - $1 > 1e-9) exit 1 } END { exit NR != 9 }' ||
    fail "joint training is there: $(numbers joint), expected $(cat expected)"
mv run/joint joint
analyze 0 ledger run --method er --json
[ "$(numbers joint)" = "null
null
null" ] || fail "joint training is not there: $(numbers joint)"
mv joint run/joint

# ---- norms ------------------------------------------------------------------------------------------------------------
analyze 0 norms run --method cwd
says "^CwD: mean norm of the head's rows; the last columns by task of their classes\$"
[ "$(grep -cE '^ +[123]( +([0-9.]+|-)){3} \|( +[0-9.]+){1,3}$' said)" -eq 3 ] || fail "three tasks: $(cat said)"
# What the run has written down: the norm of every row after the last task, and means after every task.
analyze 0 norms run --method cwd --json
sed -nE 's/^ *"head_norm": ([0-9.e-]+),?$/\1/p' run/cwd/results.json >expected
sed -nE '/"task": 3/,$p' said | sed -nE '/"norms": \[/,/\]/s/^ *([0-9.e-]+),?$/\1/p' >norms
[ "$(wc -l <expected)" -eq 10 ] && paste norms expected | awk '{ d = $1 - $2; if (d * d > 1e-12) exit 1 }' ||
    fail "norms: $(cat norms), expected $(cat expected)"
for key in old new; do
    numbers $key >norms
    sed -nE "s/^ *\"${key}_norm\": ([0-9.e-]+|null),?\$/\1/p" run/cwd/results.json >expected
    [ "$(wc -l <expected)" -eq 3 ] && paste norms expected | awk '{ d = $1 - $2; if (d * d > 1e-12) exit 1 }' ||
        fail "$key norms: $(cat norms), expected $(cat expected)"
done

# ---- D_KL -------------------------------------------------------------------------------------------------------------
analyze 0 dkl run --method cwd --samples 50
says '^CwD, model after task 1 \(6 classes\): D_KL\(real \|\| dreams\), estimator k1 with its standard error$'
says '^120 real images, 120 dreams after 5 steps of inversion$'
says '^50 samples drawn from the fit +Gaussian +KDE +KDE isotropic$'
says '^50 real features +Gaussian +KDE +KDE isotropic$'
[ "$(grep -cE '^(ce|stat) \+ [a-z +]+( +-?[0-9.e+]+ \+- [0-9.e+]+){3}$' said)" -eq 8 ] || fail "eight rows: $(cat said)"
# row NUMBER: the estimates of a row of the JSON.
analyze 0 dkl run --method cwd --samples 50 --json
row() { awk -v row="$1" '/"losses":/ { at++ } at == row' said | grep -E '"(value|error)":' | head -36; }
[ "$(row 1 | wc -l)" -eq 36 ] || fail "a row has 36 numbers: $(row 1)"
row 1 >first
"$program" analyze dkl run --method cwd --samples 50 --json --threads 2 >said 2>message || fail "two threads: $(cat message)"
cmp <(row 1) first || fail "two threads: other numbers"
for pair in 1,2 2,3 3,4 1,4; do
    ! cmp -s <(row ${pair%,*}) <(row ${pair#*,}) || fail "rows $pair: the losses make no difference"
done
# A loss whose weight is 0 is one that is not there.
same() { cmp -s <(row "$1") <(row "$2") || fail "rows $1 and $2 differ: $(row "$1") $(row "$2")"; }
analyze 0 dkl run --method cwd --samples 50 --json --set weight_bn=0
same 1 3
analyze 0 dkl run --method cwd --samples 50 --json --set weight_content=0
same 2 3
analyze 0 dkl run --method cwd --samples 50 --json --set lambda_dce=0
same 3 4
analyze 0 dkl run --method er --samples 50 --dreams 64 --task 2
says '^160 real images, 64 dreams'
says '^ce \+ stat \+ div \+ dce +- +- +-$'
says '^The model stores no statistics, so there is no DCE'
# Fewer real images than features: the fit to them is no density but for what is added to it, which is told.
"$program" run small.yaml --threads 1 --out pairs --method finetune --set images_per_class=2 --set batch=4 \
    --stop-after 1 >/dev/null 2>run.log || fail "run: $(cat run.log)"
analyze 0 dkl pairs --samples 50 --dreams 64
says '^the covariance of real images is singular; 1e-0[0-9] of its diagonal was added$'
analyze 1 dkl run --method cwd --task 4
complains 'task is 4, expected 1 to 3: run/cwd has finished so many'
analyze 1 dkl run --method cwd --set net=resnet32
complains "net is 'resnet32', but the model was trained with 'resnet-small'"
analyze 2 dkl run --method cwd --set inversion_steps=0
complains 'inversion_steps is 0'

# ---- direction of gradients -------------------------------------------------------------------------------------------
analyze 0 gradient run --method cwd --task 3
says '^CwD, task 3: mean R of 8 old and 2 new classes in every epoch of 2 batches$'
says '^epoch  old \(dreams\)   new \(real\)$'
[ "$(grep -cE '^ +[12]( +(0\.[0-9]{4}|1\.0000)){2}$' said)" -eq 2 ] || fail "two epochs: $(cat said)"
# With one batch an epoch, every class goes one way in it.
analyze 0 gradient run --method er --set batch=32 --json
says '"old_are_dreams": false'
[ "$(numbers batches)" = 1 ] && [ "$(numbers epoch | tail -1)" = 2 ] || fail "an epoch is a batch: $(cat said)"
for key in old new; do numbers $key; done | awk '{ d = $1 - 1; if (d * d > 1e-12) exit 1 } END { exit NR != 4 }' ||
    fail "one batch has one direction: $(cat said)"
# What goes together is up to what this run has, not to the defaults (refine_epochs: 40).
analyze 0 gradient run --method er --set epochs=2 --json
[ "$(numbers epoch)" = 1 ] || fail "one epoch of two comes before refinement: $(cat said)"
analyze 1 gradient run --method er --set epochs=1
complains 'refine_epochs is 1, expected 0 to 0'
analyze 1 gradient run --task 1
complains 'task is 1, expected 2 to 3: it is trained again from the model before it'

# ---- cost -------------------------------------------------------------------------------------------------------------
analyze 0 cost run
says '^cost of 3 tasks$'
[ "$(grep -cE '^(seconds|measured / ER|formula / ER) +inversion +training +refinement +estimation +all$' said)" -eq 3 ] ||
    fail "three tables: $(cat said)"
[ "$(grep -cE '^ER +0\.000 +1\.000 +0\.000 +0\.000 +1\.000$' said)" -eq 2 ] || fail "ER is the measure: $(cat said)"
analyze 0 cost run --method cwd --json
for stage in inversion training refinement estimation; do # of the first table: seconds
    took=$(numbers $stage | head -1)
    sed -nE "s/^ *\"$stage\": ([0-9.e-]+),?\$/\1/p" run/cwd/results.json | tail -3 |
        awk -v took="$took" '{ sum += $1 } END { d = sum - took; exit d * d > 1e-12 }' || fail "$stage: $took"
done
mv run/er er
analyze 0 cost run --method cwd
says '^ER was not run here, so there are no multiples'
says '^CwD +0\.[0-9]+ +[01]\.[0-9]+ +0\.[0-9]+ +0\.[0-9]+ +[0-9.]+$'
mv er run/er

# A run that is not finished.
"$program" run small.yaml --threads 1 --out begun --method cwd --stop-after 1 >/dev/null 2>&1
analyze 0 ledger begun
says '^points lost after task 1:$'
analyze 0 norms begun
analyze 0 cost begun
says '^cost of 1 task$'
analyze 0 ledger begun
! grep -q 'how far' said || fail "nothing has moved after one task"

# ---- what is refused ----------------------------------------------------------------------------------------------------
analyze 2
complains 'which analysis, of which run'
analyze 2 ledger
complains 'which run'
analyze 2 leger run
complains "unknown analysis 'leger'; did you mean 'ledger'"
for option in 'task 2' 'set epochs=3' 'samples 9' 'dreams 9'; do
    analyze 2 norms run --$option
    complains "^recollect: --${option% *} is for dkl"
done
analyze 2 gradient run --dreams 9
complains '--dreams is for dkl$'
analyze 2 accuracies run
complains "unknown analysis 'accuracies', expected ledger|dkl|norms|gradient|cost"
analyze 2 ledger run more
complains "unexpected argument 'more'"
analyze 1 ledger nowhere
complains 'nowhere is not the folder of a run: it has no run.json'
analyze 1 ledger photos
complains 'photos is not the folder of a run'
analyze 1 ledger run --method cwx
complains "there is no method 'cwx'; did you mean 'cwd'"
analyze 1 ledger run --method abd
complains 'the run in run has no results of abd'
analyze 1 ledger run --data procedural:10
complains 'the data is not what the run in run was made with.*--data says where it lies'
analyze 1 ledger run --data nowhere
complains nowhere
# Several seeds have read their data with one, which chose the test images. An earlier version did not write it down.
"$program" run small.yaml --threads 1 --out seeds --method er --seeds 1,2 --stop-after 1 >/dev/null 2>run.log ||
    fail "run: $(cat run.log)"
for seed in 1 2; do
    analyze 0 ledger seeds/seed-$seed
    says '^ER: '
    sed -i '/"data_seed"/d' seeds/seed-$seed/run.json
done
analyze 0 ledger seeds/seed-1
analyze 1 ledger seeds/seed-2
complains 'the data is not what the run in seeds/seed-2 was made with'

mkdir -p several/first several/seed-5
touch several/summary.json
analyze 1 ledger several
complains 'several is not the folder of a run: it has no run.json'
analyze 1 ledger several/summary.json
complains 'several/summary.json is not the folder of a run'
touch several/seed-5/run.json
analyze 1 ledger several
complains 'several holds several runs: name one of the folders in it, such as several/seed-5$'
[ "$before" = "$(find run -type f -exec cksum {} + | sort)" ] || fail "the run was changed"

# damaged FILE MESSAGE COMMAND...: with the file changed by the command the ledger of a copy is refused with that message.
damaged() {
    local file=$1 pattern=$2
    shift 2
    rm -rf copy
    cp -r run copy
    (cd copy && "$@")
    analyze 1 ledger copy --method cwd
    complains "$file"
    complains "$pattern"
}
damaged cwd/task-2.safetensors 'is not there: this analysis needs the model after task 2. A run keeps' rm cwd/task-2.safetensors
damaged cwd/task-2.safetensors 'is a model of 1 tasks with 6 classes, expected 2 with 8' \
    cp cwd/task-1.safetensors cwd/task-2.safetensors
damaged cwd/task-2.safetensors 'belongs to another run, with another method' cp er/task-2.safetensors cwd/task-2.safetensors
damaged cwd/task-3.safetensors . truncate -s 900 cwd/task-3.safetensors
damaged run.json . truncate -s 40 run.json
damaged run.json "configuration has a setting 'epocks'" sed -i 's/"epochs"/"epocks"/' run.json
damaged run.json 'epochs is 0' sed -i 's/"epochs": "3"/"epochs": "0"/' run.json
damaged cwd/results.json . truncate -s 100 cwd/results.json
damaged cwd/results.json "results of the method 'er', expected 'cwd'" cp er/results.json cwd/results.json
damaged cwd/results.json 'task 1 has -6 classes, expected 1 or more' sed -i '/"task_sizes"/,/\]/s/6/-6/' cwd/results.json
damaged cwd/results.json 'its tasks are not those' sed -i '/"task_sizes"/,/\]/s/6/5/' cwd/results.json
damaged cwd/results.json '3 tasks are finished, but there are 2' sed -i '/"task_sizes"/,/\]/{/6,/d}' cwd/results.json
rm -rf copy
cp -r run copy
rm -r copy/er copy/cwd copy/joint
analyze 1 ledger copy
complains 'the run in copy has no results yet'
echo "ok: analyze"
