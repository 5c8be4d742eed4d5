#!/usr/bin/env bash
# The logs of a run, as the real TensorBoard and Python's csv and json read them: of a run that was left alone, of one that
# was killed in its midst and resumed, and of one that lost the end of its log. Skipped (code 77) where there is no Python
# with tensorboard, which is a failure where RECOLLECT_TEST_NO_SKIP is set.
#
# usage: test_tensorboard.sh PROGRAM
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=$(realpath "$1")
python=${PYTHON:-$here/../../.venv/bin/python}
if ! "$python" -c 'import tensorboard' 2>/dev/null; then
    echo "skipped: '$python' lacks tensorboard; script/bootstrap --interop installs it"
    if [ -n "${RECOLLECT_TEST_NO_SKIP:-}" ]; then exit 1; fi
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >small.yaml <<YAML
data: procedural:6
tasks: 3
images_per_class: 32
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
run() { "$program" run small.yaml --method cwd --threads 1 --out "$@" >out.txt 2>message.txt; }
look() { "$python" -B "$here/tensorboard_logs.py" "$1/cwd" || { echo "FAILED: $2" >&2; exit 1; }; }

run whole --checkpoint 0
look whole "a run that was left alone"

# Stopped after a task, the log says so; resumed, it has every step once.
run parts --checkpoint 0 --stop-after 2
grep -q '"status":"stopped","message":"stopped after task 2 of 3"' parts/cwd/events.jsonl
# A TensorBoard that is open meanwhile goes on with what the second process writes.
sleep 1.1 # so that the second process has a name of its own for its file
export -f run
export program
"$python" -B - "$work" <<'PYTHON' || { echo "FAILED: an open TensorBoard" >&2; exit 1; }
import json, subprocess, sys
from tensorboard.backend.event_processing import event_accumulator
found = event_accumulator.EventAccumulator("parts/cwd", size_guidance={event_accumulator.SCALARS: 0})
found.Reload()
before = [event.step for event in found.Scalars("training/total_loss")]
subprocess.run(["bash", "-c", "run parts --checkpoint 0 --resume"], check=True)
found.Reload()
steps = [event.step for event in found.Scalars("training/total_loss")]
lines = [json.loads(line) for line in open("parts/cwd/events.jsonl")]
expected = [line["total_step"] for line in lines if line.get("stage") == "training"]
assert steps == expected and 0 < len(before) < len(steps), (before, steps, expected)
PYTHON
look parts "a run that was resumed"
lines() { grep -o '"task":[0-9]*,"stage":"[a-z]*","step":[0-9]*' "$1/cwd/events.jsonl"; }
diff <(lines whole) <(lines parts)

# Killed, with half a line at the end of every file.
"$program" run small.yaml --method cwd --threads 1 --out killed --checkpoint 0 >/dev/null 2>&1 &
pid=$!
for ((i = 0; i < 3000; i++)); do
    if grep -q '"task":2,"stage":"training","step":3,' killed/cwd/events.jsonl 2>/dev/null; then break; fi
    sleep 0.01
done
kill -9 $pid
wait $pid 2>/dev/null || true
for file in killed/cwd/events.jsonl killed/cwd/scalars.csv killed/cwd/*tfevents*; do printf '{"event":"st' >>"$file"; done
run killed --checkpoint 0 --resume
look killed "a run that was killed"
diff <(lines whole) <(lines killed)
cmp whole/cwd/task-3.safetensors killed/cwd/task-3.safetensors
echo passed
