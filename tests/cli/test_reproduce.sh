#!/usr/bin/env bash
# recollect reproduce from outside, shrunken, on a CIFAR-100 of plain colours: a table from start to end, what is done is
# skipped, a stopped one goes on, shards and merging, folders and cells of others are refused.
#
# usage: test_reproduce.sh PROGRAM
set -euo pipefail
program=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "test_reproduce: FAILED: $*" >&2; exit 1; }

# ---- data: records of two labels and three planes of 1024 bytes ------------------------------------------------------
mkdir cifar-100-binary
planes=()
for i in {0..63}; do
    printf -v plane '%1024s' ''
    printf -v colour "\\$(printf %03o $((48 + i)))"
    planes[i]=${plane// /$colour}
done
records() { # records PER_CLASS SHIFT
    local class image
    for ((image = 0; image < $1; image++)); do
        for ((class = 0; class < 100; class++)); do
            printf "\\000\\$(printf %03o "$class")%s%s%s" "${planes[(class + image * $2) % 64]}" \
                "${planes[(class / 2 + 31) % 64]}" "${planes[(class * 7 + image) % 64]}"
        done
    done
}
records 12 1 >cifar-100-binary/train.bin
records 6 2 >cifar-100-binary/test.bin
[ "$(stat -c %s cifar-100-binary/train.bin)" -eq $((1200 * 3074)) ] || fail "the data is not what it should be"

small=(--data cifar-100-binary --scale 0.001 --threads 1)
reproduce() { "$program" reproduce "$@"; }
# refused CODE PATTERN ARGUMENT...: ends with the code and a message that holds the pattern.
refused() {
    local wanted=$1 pattern=$2 code=0
    shift 2
    reproduce "$@" >/dev/null 2>message || code=$?
    [ $code -eq "$wanted" ] || fail "$*: code $code, expected $wanted: $(cat message)"
    grep -qE -- "$pattern" message || fail "$*: the message lacks '$pattern': $(cat message)"
}

# ---- names and usage -------------------------------------------------------------------------------------------------
reproduce --list >list.txt
[ "$(wc -l <list.txt)" -eq 18 ] || fail "the list has not 18 names"
grep -qE '^table-ablation +36 cells ' list.txt || fail "table-ablation has not 36 cells"
grep -qE '^table-plus +24 cells ' list.txt || fail "table-plus has not 24 cells"
grep -qE '^table-strong +45 cells ' list.txt || fail "table-strong has not 45 cells"
refused 2 "did you mean 'table-ablation'" table-ablatoin "${small[@]}"
refused 2 'which table or figure' "${small[@]}"
refused 2 'where are the images' table-ablation
refused 2 "'--scale' is '2', expected a number from 0.001 to 1" table-ablation --data x --scale 2
refused 2 "'--scale' is '0'" table-ablation --data x --scale 0
refused 2 "'--shard' is '3/2', expected K/N" table-ablation --data x --shard 3/2
refused 2 "'--shard' is '1/2x'" table-ablation --data x --shard 1/2x
refused 2 "has no row 'cdw'" table-ablation --data x --only cdw
refused 2 'expected SET=PATH' table-cost --data x
refused 2 'no cell is of tiny-imagenet' table-ablation --data tiny-imagenet=x
# A path with a mistake leaves nothing behind: the folder would have a scale from then on.
code=0
reproduce table-ablation --data nowhere --out typo >out.txt 2>message || code=$?
[ $code -eq 1 ] && [ ! -e typo ] && [ ! -s out.txt ] || fail "code $code, and output or a folder, where there is no data"
[ "$(cat message)" = "recollect: there is no data at 'nowhere'" ] || fail "where there is no data: $(cat message)"
reproduce table-ablation --plan --out nowhere >plan.txt
[ "$(grep -c '(4 left)$' plan.txt)" -eq 9 ] || fail "the plan has not nine runs of four cells: $(cat plan.txt)"
grep -q '^table-ablation: 36 cells, 0 done$' plan.txt || fail "the plan does not count: $(cat plan.txt)"
grep -qxF "  recollect run cifar100-20 --method rdfcil,cwd-without-dce,cwd-without-war,cwd --order 2 --data cifar100 --out nowhere/cifar100-20/order-2 --resume" plan.txt ||
    fail "the plan lacks a command: $(cat plan.txt)"
[ ! -e nowhere ] || fail "the plan made a folder"
# Names that mean something to a shell are in quotes.
reproduce table-ablation --plan --only cwd --tasks 5 --orders 0 --data "it's here" --out 'a $b' >plan.txt
grep -qxF "  recollect run cifar100-5 --method cwd --order 0 --data 'it'\''s here' --out 'a \$b/cifar100-5/order-0' --resume" plan.txt ||
    fail "a plan with names that a shell does not take: $(cat plan.txt)"
for shard in 1 2 3; do
    reproduce table-ablation --plan --shard $shard/3 --out nowhere >plan.txt
    [ "$(grep -c "/order-$((shard - 1)): .* (4 left)$" plan.txt)" -eq 3 ] || fail "part $shard of 3: $(cat plan.txt)"
done
reproduce table-ablation "${small[@]}" --tasks 5 --shard 2/4 --out nowhere >/dev/null 2>message
grep -q '^part 2 of 4 has no cells: there are fewer runs than parts$' message || fail "an empty part: $(cat message)"
[ ! -e nowhere/cifar100-5 ] || fail "an empty part has run something"
rm -r nowhere
reproduce published --plan --only rdfcil-published --tasks 5 --orders 0 --out nowhere >plan.txt
grep -q -- '--set weight_prior=0.001 --set diversity_epsilon=0 --data' plan.txt || fail "published settings are not in the plan"
# Shrunken: what the row has is shrunken, too.
reproduce published --plan --only abd-published --tasks 5 --scale 0.02 --out nowhere >plan.txt
grep -qE -- '^  recollect run .* --set net=resnet-small .* --set epochs=5 --set refine_epochs=0 --set milestone=2,3,4 .* --set weight_prior=0.001 ' plan.txt ||
    fail "a shrunken plan lacks settings: $(cat plan.txt)"

# ---- a table, once and again -----------------------------------------------------------------------------------------
part=(table-ablation "${small[@]}" --tasks 5 --only rdfcil,cwd)
reproduce "${part[@]}" --out whole >whole.txt 2>whole.log || fail "it ended with $?: $(cat whole.log)"
grep -q 'run 1 of 1: cifar100-5/order-0: R-DFCIL, CwD$' whole.log || fail "it does not say what it runs: $(cat whole.log)"
grep -qE '^forecast: about [0-9:]+ for all cells of cifar100' whole.log || fail "no forecast: $(cat whole.log)"
grep -qE '^scale 0.001, .* 1 of the class orders, .*images_per_class 10 for 0, test_per_class 5 for 0, .*epochs 3 for 200' whole.log ||
    fail "it does not say what was shrunk: $(cat whole.log)"
grep -q '2 of 12 cells are done' whole.txt || fail "no summary: $(cat whole.txt)"
for file in reproduce.json table-ablation.html table-ablation.txt table-ablation.csv table-ablation.json cifar100-5/order-0/run.json \
    cifar100-5/order-0/cwd/results.json cifar100-5/order-0/rdfcil/task-5.safetensors; do
    [ -s "whole/$file" ] || fail "$file is missing"
done
# The table is the summary: a file of the last run alone would lack cells, and one whose writing failed would never come back.
[ ! -e whole/cifar100-5/order-0/summary.json ] || fail "a run of a table has a summary of its own"
last=$(sed -n 's/^ *"last_accuracy": \([0-9.]*\),$/\1/p' whole/cifar100-5/order-0/cwd/results.json | head -1)
grep -q "^cifar100,5,cwd,cwd,1,$(printf %.6g "$last")," whole/table-ablation.csv || fail "the CSV has not $last"
[ "$(grep -c '"done": true' whole/table-ablation.json)" -eq 2 ] || fail "the JSON has not two cells that are done"
grep -q '"command_line": "recollect reproduce table-ablation --data' whole/cifar100-5/order-0/run.json ||
    fail "run.json does not say how it was made"
# The command that a plan prints of it has the same settings.
reproduce "${part[@]}" --plan --out whole >plan.txt
command=$(sed -n 's/^  recollect //p' plan.txt)
# shellcheck disable=SC2086
"$program" $command --print-config | cmp - whole/cifar100-5/order-0/config.yaml ||
    fail "the command of a plan has other settings: $(cat plan.txt)"
before=$(stat -c %Y.%s whole/cifar100-5/order-0/*/results.json)
reproduce "${part[@]}" --out whole >again.txt 2>again.log
! grep -q '^run ' again.log || fail "what is done was run again: $(cat again.log)"
[ "$before" = "$(stat -c %Y.%s whole/cifar100-5/order-0/*/results.json)" ] || fail "results were written again"
tail -n "$(wc -l <again.txt)" whole.txt | cmp - again.txt || fail "the table differs"
# Another name has the same cell, and only adds its own.
reproduce fig-debias "${small[@]}" --only ace,cwd --out whole >more.txt 2>more.log
grep -q 'run 1 of 1: cifar100-5/order-0: ACE$' more.log || fail "a shared cell was run again: $(cat more.log)"
grep -q "^CwD: mean norm of the head's rows" more.txt || fail "the analysis is not called: $(cat more.txt)"
grep -q '"analysis": "norms"' whole/cifar100-5/order-0/norms.json || fail "the analysis left no file"
for title in 'ACE' 'CwD'; do grep -q ">$title after task 5" whole/fig-debias.html || fail "the page lacks $title"; done
! grep -q '>R-DFCIL after task' whole/fig-debias.html || fail "the page of a figure has cells of another"
! grep -q '52\.46' whole/fig-debias.html || fail "a page of shrunken runs has the paper's numbers"
# Names of several sets leave out what has no data.
reproduce table-cost --data cifar100=cifar-100-binary --scale 0.001 --threads 1 --tasks 5 --only rdfcil,cwd --out whole \
    >/dev/null 2>cost.log
grep -q '^left out, because their data was not given: 4 cells; ' cost.log || fail "cells without data are not counted: $(cat cost.log)"

# An analysis that trains is made once.
reproduce table-dkl "${small[@]}" --out whole >dkl.txt 2>dkl.log || fail "$(cat dkl.log)"
grep -q '"analysis": "dkl"' whole/cifar100-2/order-0/dkl.json || fail "no divergences: $(cat dkl.txt dkl.log)"
reproduce table-dkl "${small[@]}" --out whole >/dev/null 2>dkl.log
grep -q '^whole/cifar100-2/order-0/dkl.json is there already' dkl.log || fail "divergences were computed again: $(cat dkl.log)"

# ---- folders and scales never mix ------------------------------------------------------------------------------------
refused 2 'whole holds results of scale 0.001, which must not mix with those of scale 1' table-ablation --data x --out whole
refused 2 'must not mix with those of scale 0.002' table-ablation --data x --out whole --scale 0.002
mkdir mixed
sed 's/0.001/1/' whole/reproduce.json >mixed/reproduce.json
cp -r whole/cifar100-5 mixed/
refused 1 'mixed/cifar100-5/order-0/.*results.json belongs to another run, with other settings .images_per_class ' \
    table-ablation --data x --out mixed

# ---- data that is not what it should be, a run that fails --------------------------------------------------------------
refused 1 'procedural:20 has 20 classes, expected the 100 of cifar100' fig-5tasks --data procedural:20 --scale 0.001 --out no
cp -r cifar-100-binary other-data
printf x | dd of=other-data/test.bin bs=1 seek=100 conv=notrunc status=none
refused 1 "results of cifar100 in whole are of other data than 'other-data'" fig-debias --data other-data --scale 0.001 --out whole
mkdir broken
touch broken/cifar100-5 # where a folder should be
refused 1 '^recollect: 1 run failed; the same command tries it again' table-cifar100 "${small[@]}" --tasks 5,10 \
    --only lwf --out broken
grep -q 'cifar100-5/order-0: .*cifar100-5' message || fail "the failure is not told: $(cat message)"
grep -q '1 of 36 cells are done' broken/table-cifar100.txt || fail "the runs after one that failed are not done"

# ---- shards and merging ----------------------------------------------------------------------------------------------
# What two machines would have, each with one of the methods.
for folder in one two; do
    mkdir $folder
    cp -r whole/reproduce.json whole/cifar100-5 $folder
done
rm -r one/cifar100-5/order-0/{ace,cwd} two/cifar100-5/order-0/{ace,rdfcil}
reproduce table-ablation --scale 0.001 --out merged --merge one --merge two >merged.txt 2>merged.log
grep -q '^one: 1 cell taken over; here already: 0, of something else: 0$' merged.log || fail "$(cat merged.log)"
grep -q '2 of 12 cells are done' merged.txt || fail "merged cells do not count: $(cat merged.txt)"
grep -q '^merged/table-ablation.html: 2 runs' merged.log merged.txt || fail "merged cells have no page: $(cat merged.log)"
for method in rdfcil cwd; do
    cell=cifar100-5/order-0/$method/results.json
    cmp {one,two}/$cell merged/$cell 2>/dev/null || cmp "$(ls -d {one,two}/$cell 2>/dev/null)" merged/$cell ||
        fail "$cell was changed on the way"
    [ ! -e merged/cifar100-5/order-0/$method/task-5.safetensors ] || fail "models travel, too"
done
reproduce table-ablation --scale 0.001 --out merged --merge two >/dev/null 2>merged.log
grep -q '^two: 0 cells taken over; here already: 1, of something else: 0$' merged.log || fail "a cell was taken over twice"
reproduce "${part[@]}" --out merged >/dev/null 2>merged.log
! grep '^run ' merged.log || fail "merged cells were run again"
reproduce "${part[@]}" --only cwd-without-dce,cwd --out merged >/dev/null 2>beside.log
grep -q 'run 1 of 1: cifar100-5/order-0: CwD-DCE$' beside.log || fail "no cell beside merged ones: $(cat beside.log)"
# What an analysis needs does not travel: it says where to look.
reproduce fig-debias --scale 0.001 --out 'norms of two' --merge two >/dev/null 2>norms.log
grep -qF 'left to do, where the models of the run are: recollect analyze norms '\''norms of two/cifar100-5/order-0'\'' --method cwd' norms.log ||
    fail "an analysis without models: $(cat norms.log)"
# foreign NAME PATTERN: of a folder with a cell that is of something else, the others alone are taken over.
foreign() {
    refused 1 "$2" table-ablation --scale 0.001 --out "into-$1" --merge "$1"
    grep -q "^$1: 1 cell taken over; here already: 0, of something else: 1$" message || fail "$(cat message)"
    [ ! -e "into-$1/$cell" ] || fail "a foreign cell of $1 was merged"
    [ -e "into-$1/cifar100-5/order-0/rdfcil/results.json" ] || fail "a good cell of $1 was not merged"
}
cell=cifar100-5/order-0/cwd/results.json
for name in settings data classes method nothing; do
    cp -r whole $name
    fingerprint=$(sed -n 's/^ *"fingerprint": "\(.*\)",$/\1/p' $name/$cell)
    case $name in
        nothing) changed= ;;
        settings) # of another scale, whose files say so
            changed=${fingerprint/settings=/settings=zz}
            sed -i 's/"inversion_steps": "20"/"inversion_steps": "21"/' $name/$cell ;;
        *) changed=$(sed "s/$name=../$name=zz/" <<<"$fingerprint") ;;
    esac
    sed -i "s/\"fingerprint\": \".*\"/\"fingerprint\": \"$changed\"/" $name/$cell
done
foreign settings "settings/.*cwd/results.json belongs to another run, with other settings .inversion_steps '21'"
foreign data 'belongs to another run, with other data'
foreign classes 'belongs to another run, with another order of classes or tasks'
foreign method 'belongs to another run, with another method'
foreign nothing 'belongs to another run'
refused 1 'of scale 0.001, which must not mix' table-ablation --scale 0.002 --out other --merge whole
refused 1 "'.' has no finished cell of table-ablation" table-ablation --scale 0.001 --out other --merge .
# A setting that came later counts as its default; one that is not known may mean anything.
mkdir copies
fingerprint=$(sed -n 's/^ *"fingerprint": "\(.*\)",$/\1/p' whole/$cell)
sed "/\"zoom\":/d; s/settings=[0-9a-f]*/settings=0123456789abcdef/" whole/$cell >copies/cifar100-5-cwd-order-0.json
reproduce table-ablation --scale 0.001 --out from-copies --merge copies >/dev/null 2>message || fail "$(cat message)"
cmp copies/cifar100-5-cwd-order-0.json from-copies/$cell || fail "a copy was not taken over"
# In the second format of runs, buffer_size and lode_rho said nothing where a row has its own.
older='s/recollect-run-3/recollect-run-2/; s/"buffer_size": "0"/"buffer_size": "500"/; s/"lode_rho": "0"/"lode_rho": "0.05"/'
sed "$older; s/settings=[0-9a-f]*/settings=0123456789abcdef/" whole/$cell >copies/cifar100-5-cwd-order-0.json
reproduce table-ablation --scale 0.001 --out from-older --merge copies >/dev/null 2>message || fail "$(cat message)"
sed "${older#*; }; s/settings=[0-9a-f]*/settings=0123456789abcdef/" whole/$cell >copies/cifar100-5-cwd-order-0.json
refused 1 "other settings .buffer_size '500'" table-ablation --scale 0.001 --out no-copies --merge copies
sed "s/\"zoom\":/\"doom\":/; s/settings=[0-9a-f]*/settings=0123456789abcdef/" whole/$cell >copies/cifar100-5-cwd-order-0.json
refused 1 'belongs to another run, with other settings' table-ablation --scale 0.001 --out no-copies --merge copies

# ---- stopped and resumed ---------------------------------------------------------------------------------------------
"$program" reproduce "${part[@]}" --only cwd --out stopped >/dev/null 2>stopped.log &
job=$!
for _ in {1..2400}; do
    [ ! -e stopped/cifar100-5/order-0/first-task/task-1.safetensors ] || break
    sleep 0.05
done
kill -TERM $job 2>/dev/null || true
code=0
wait $job || code=$?
grep -qE '(--resume goes on|^Stopped)' stopped.log || fail "it does not say how to go on: $(cat stopped.log)"
[ $code -eq 130 ] || fail "it was stopped and ended with $code: $(cat stopped.log)"
reproduce "${part[@]}" --only cwd --out stopped --resume >/dev/null 2>&1
cmp stopped/cifar100-5/order-0/cwd/task-5.safetensors whole/cifar100-5/order-0/cwd/task-5.safetensors ||
    fail "a run that was stopped ends with other bits"
echo "test_reproduce: passed"
