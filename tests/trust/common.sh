# Sourced by the tests of trust: a run so small that it takes a fraction of a second, and what to look for afterwards.
# Expects the paths of the program and of make_images as the first two arguments.
set -euo pipefail
paths=()
for argument in "$@"; do
    if [ -e "$argument" ]; then argument=$(realpath "$argument"); fi
    paths+=("$argument")
done
set -- "${paths[@]}"
program=$1 make_images=$2
name=$(basename "$0" .sh)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "$name: FAILED: $*" >&2; exit 1; }

# Six classes in three tasks: all stages, of a few steps each. One thread, because these tests run beside others.
"$make_images" procedural train 0 6 24 ppm photos
cat >small.yaml <<YAML
data: $work/photos
tasks: 3
net: resnet-small
net_width: 4
generator: generator-small
generator_width: 8
noise: 16
batch: 16
epochs: 3
refine_epochs: 1
milestone: [1]
inversion_steps: 6
YAML

run() { "$program" run small.yaml --method cwd --threads 1 "$@"; }
# The same to be sent into the background: its number is then that of the program itself.
life() { exec "$program" run small.yaml --method cwd --threads 1 "$@"; }

# same FOLDER WHOLE: the models are the same bits; the results, but for times, the same text; nothing is left over.
same() {
    local file
    for file in first-task/task-1 cwd/task-1 cwd/task-2 cwd/task-3; do
        cmp -s "$1/$file.safetensors" "$2/$file.safetensors" || fail "$3: $file ended with other bits"
    done
    for file in classes.csv confusion.csv; do
        cmp -s "$1/cwd/$file" "$2/cwd/$file" || fail "$3: $file differs"
    done
    [ "$(find "$1" -name '*.tmp-*' -o -name 'checkpoint*' | wc -l)" -eq 0 ] ||
        fail "$3: left over: $(find "$1" -name '*.tmp-*' -o -name 'checkpoint*')"
    # Every line of the log is whole, and no step is logged twice.
    [ "$(tail -c 1 "$1/cwd/events.jsonl" | od -An -c | tr -d ' ')" = '\n' ] || fail "$3: the log ends in half a line"
    [ "$(grep -vc '^{.*}$' "$1/cwd/events.jsonl")" -eq 0 ] || fail "$3: a line of the log is torn"
    local steps
    steps=$(grep -o '"task":[0-9]*,"stage":"[a-z]*","step":[0-9]*' "$1/cwd/events.jsonl" | sort)
    [ "$steps" = "$(uniq <<<"$steps")" ] || fail "$3: a step is logged twice"
    [ "$(grep -c '"event":"task"' "$1/cwd/events.jsonl")" -eq 3 ] || fail "$3: the log does not hold three tasks"
    # What is made from the log has all of it, and nothing else.
    cmp -s <(grep '"event":"step"' "$1/cwd/events.jsonl" | grep -o '"task":[0-9]*,"stage":"[a-z]*","step":[0-9]*' |
        sed 's/"[a-z]*"://g; s/"//g') <(tail -n +2 "$1/cwd/scalars.csv" | cut -d, -f3-5) || fail "$3: scalars.csv is not the log"
    [ "$(find "$1/cwd" -name '*tfevents*' -size +0 | wc -l)" -eq 1 ] || fail "$3: $(ls "$1/cwd")"
    [ -s "$1/cwd/task-2-dreams.png" ] && [ -s "$1/cwd/task-3-dreams.png" ] || fail "$3: no pictures of dreams"
}

# Where the checkpoint of a run is: "task 1 inversion 7".
position() {
    local file
    file=$(find "$1" -name checkpoint.safetensors 2>/dev/null | head -n 1)
    [ -n "$file" ] || { echo "no checkpoint"; return; }
    head -c 8000 "$file" | tr -d '\0' | grep -ao '"\(task\|stage\|step\)":"[a-z0-9]*"' | tr -s '":\n' ' '
}
