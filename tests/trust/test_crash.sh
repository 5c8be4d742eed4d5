#!/usr/bin/env bash
# The power fails after every operation on files of a run and of a lesson, and the disk has lost what was not synced, in
# every order that a disk may (crash.py says which). From what is left the same command goes on to the bytes of one that
# was left alone, and nothing is lost that had been told as done.
#
# usage: test_crash.sh PROGRAM MAKE_IMAGES RECORD_LIBRARY HEAP_LIBRARY [DISKS|all [SEED [COMMAND...]]]
#   DISKS: how many are tried of each command (default: 3)
crash=$(realpath "$(dirname "$0")")/crash.py
. "$(dirname "$0")/smallest.sh"
. "$(dirname "$0")/common.sh"
record=$3 heap=$4 disks=${5:-3} seed=${6:-$$}
shift $(($# < 6 ? $# : 6))
only=("$@")
command -v python3 >/dev/null || { echo "$name: skipped, there is no python3"; exit 77; }
echo "$name: seed $seed"

some() { # FOLDER FIRST LAST: five photos of each of these classes
    local class files
    for class in $(ls photos | sed -n "$2,$3p"); do
        files=(photos/"$class"/*)
        mkdir -p "$1/$class"
        cp "${files[@]:0:5}" "$1/$class"
    done
}
some inputs/first 1 2
some inputs/photos 1 4
some inputs/second 5 5
{ smallest 2; echo "min_steps: 2"; } >inputs/learn.yaml
{ echo "data: $work/inputs/photos"; echo "tasks: 2"; smallest 2; } >inputs/run.yaml
"$program" learn inputs/first --preset inputs/learn.yaml --threads 1 --out inputs/one.safetensors >/dev/null 2>&1

# Two methods are one after the other; a model replaces an older one.
declare -A commands=(
    [run]="run ../inputs/run.yaml --method cwd --threads 1 --checkpoint 0 --out run --resume"
    [run-two]="run ../inputs/run.yaml --method cwd,rdfcil --threads 1 --checkpoint 60 --out run --resume"
    [learn]="learn ../inputs/one.safetensors ../inputs/second --adapt all --threads 1 --checkpoint 0 --out new.safetensors --resume"
    [learn-again]="learn ../inputs/one.safetensors ../inputs/second --adapt all --threads 1 --checkpoint 0 --out old.safetensors --force --resume"
    [pack]="pack ../inputs/photos --out new.pack --size 14 --threads 1"
)
order=(run run-two learn learn-again pack)
wrong=0
for command in "${order[@]}"; do
    [ ${#only[@]} -eq 0 ] || [[ " ${only[*]} " == *" $command "* ]] || continue
    rm -rf root before record
    mkdir root before
    if [ $command = learn-again ]; then cp inputs/one.safetensors before/old.safetensors; fi
    cp -r before/. root
    # With a clock that stands still, as in test_sweep.sh.
    (cd root && env LD_PRELOAD="$record $heap" RECOLLECT_HEAP=count:0 RECOLLECT_RECORD_UNDER="$work/root" \
        RECOLLECT_RECORD="$work/record" "$program" ${commands[$command]} >../told 2>../message) ||
        fail "$command: $(<message)"
    rm -rf expected
    cp -r root expected
    CRASH_PRELOAD=$heap python3 "$crash" record "$work/root" before expected told "$disks" "$seed" \
        "$program" ${commands[$command]} | sed "s/^figures:/& $command,/" || wrong=1
done
[ $wrong -eq 0 ] || fail "there are violations"
echo "$name: passed in $SECONDS s"
