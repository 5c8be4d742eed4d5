#!/usr/bin/env bash
# bench/results.py and bench/paper.csv: its examples, the names of its methods, and the table of two runs that are done.
# bench/torch_peer.py, peers.py and jax_peer.py: their examples and what they refuse.
# bench/photos.py: its examples, and the table of two small lessons.
# bench/figure.py: its examples, and that the figure of README.md is what it draws from the results of the runs.
# Skipped (code 77) where there is no Python, which is a failure where RECOLLECT_TEST_NO_SKIP is set.
#
# usage: test_results.sh PROGRAM
set -euo pipefail
program=$1
bench=$(cd "$(dirname "$0")/../../bench" && pwd)
python=${PYTHON:-python3}
if ! "$python" -c '' 2>/dev/null; then
    echo "skipped: there is no '$python'"
    if [ -n "${RECOLLECT_TEST_NO_SKIP:-}" ]; then exit 1; fi
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $1" >&2
    exit 1
}
export PYTHONDONTWRITEBYTECODE=1 PYTHONIOENCODING=utf-8

for file in results.py torch_peer.py peers.py photos.py figure.py; do
    "$python" -m doctest "$bench/$file" || fail "an example of $file"
done

# Parent and options of the peer in JAX need no JAX.
"$python" "$bench/jax_peer.py" --steps inversion --batch 1 --rounds 1 --threads 1 --configurations shifted >"$work/said" 2>&1 &&
    fail "a configuration of 224 px at 32 px"
grep -q "'shifted' is none of scan, graph" "$work/said" || fail "jax_peer.py says: $(tail -n 1 "$work/said")"

"$python" "$bench/figure.py" >"$work/lessons.svg" || fail "the figure of README.md cannot be drawn"
cmp "$work/lessons.svg" "$bench/../docs/figures/lessons.svg" ||
    fail "docs/figures/lessons.svg is not what its data says: bench/figure.py > docs/figures/lessons.svg draws it again"
grep -q 'docs/figures/lessons.svg' "$bench/../README.md" || fail "README.md does not show the figure"
echo '{"name": "magic", "classes": 6, "accuracy": 99}' >"$work/other.jsonl"
if "$python" "$bench/figure.py" Other "$work/other.jsonl" >/dev/null 2>"$work/said"; then fail "a way that there is not"; fi
grep -q "'magic' is none of the ways" "$work/said" || fail "what is said of a way that there is not: $(cat "$work/said")"

{ "$program" methods | awk '{ print $1 }'; echo rdfcil-published; } | sort >"$work/methods"
tail -n +2 "$bench/paper.csv" | cut -d, -f3 | sort -u | comm -23 - "$work/methods" >"$work/unknown"
[ ! -s "$work/unknown" ] || fail "paper.csv has rows that are no methods: $(tr '\n' ' ' <"$work/unknown")"
awk -F, 'NF != 7 { exit 1 }' "$bench/paper.csv" || fail "a line of paper.csv has not seven fields"
[ -z "$(cut -d, -f1-3 "$bench/paper.csv" | sort | uniq -d)" ] || fail "paper.csv says something twice"

run() { # FOLDER METHOD ORDER TASKS_DONE LAST MEAN
    mkdir -p "$work/$1"
    cat >"$work/$1/results.json" <<JSON
{"method": "$2", "tasks_done": $4, "task_sizes": [20, 20, 20, 20, 20], "accuracy": [80, 70, 60, 50, $5],
 "last_accuracy": $5, "mean_accuracy": $6, "stage_seconds": {"total": 61},
 "tasks": [{"stored": {"images": 0, "generative_model": 0, "statistics": 41984}}],
 "run": {"version": "1", "commit": "abc", "command_line": "recollect run", "order": $3, "backend": "cuda",
         "precision": "bf16", "device": "card", "dataset": "cifar100"}}
JSON
}
run runs/order-0/cwd cwd 0 5 51.46 65
run runs/order-1/cwd cwd 1 5 53.46 67
run runs/order-2/cwd cwd 2 4 1 1 # not done
run runs/order-0/sce sce 0 5 40 60
run runs/order-0/joint joint 0 5 70 75
"$python" "$bench/results.py" "$work/runs" >"$work/table" 2>"$work/said"
[ ! -s "$work/said" ] || fail "said of runs that differ in their order alone: $(cat "$work/said")"
for folder in sweep/a sweep/b; do run $folder/order-0/cwd cwd 0 5 51.46 65; done
sed -i 's/"dataset"/"config": {"lambda_dce": "0.05"}, &/' "$work/sweep/a/order-0/cwd/results.json"
sed -i 's/"dataset"/"config": {"lambda_dce": "0.2"}, &/' "$work/sweep/b/order-0/cwd/results.json"
"$python" "$bench/results.py" "$work/sweep" >/dev/null 2>"$work/said"
grep -q "the row cwd is a mean over runs that differ in lambda_dce: name fewer folders" "$work/said" ||
    fail "what is said of a mean over a sweep: $(cat "$work/said")"
grep -qF '| cwd | 52.46 ± 1.41 | 52.46 ± 0.35 (+0.00) | 66.00 ± 1.41 | 66.31 ± 1.46 (-0.31) | 0, 1 |' "$work/table" ||
    fail "the row of two runs: $(cat "$work/table")"
grep -qF '| sce | 40.00 | 47.86 ± 0.51 (-7.86) | 60.00 | - |' "$work/table" || fail "a mean that the paper has not"
grep -qF '| joint | 70.00 | - | 75.00 | - |' "$work/table" || fail "a method that the paper has not"
"$python" "$bench/results.py" --collect "$work/collected" "$work/runs" >/dev/null 2>&1
[ "$(ls "$work/collected" | tr '\n' ' ')" = "cifar100-5-cwd-order-0.json cifar100-5-cwd-order-1.json \
cifar100-5-joint-order-0.json cifar100-5-sce-order-0.json " ] || fail "what was collected: $(ls "$work/collected")"
cmp "$work/runs/order-1/cwd/results.json" "$work/collected/cifar100-5-cwd-order-1.json" || fail "a copy differs"
run runs/order-0/cwd cwd 0 5 1 1
"$python" "$bench/results.py" --collect "$work/collected" "$work/runs" >/dev/null 2>"$work/said"
grep -q "cifar100-5-cwd-order-0.json is there already" "$work/said" || fail "nobody said that a copy was there"
"$python" "$bench/results.py" "$work/collected"/*.json >"$work/again"
cmp "$work/table" "$work/again" || fail "the table of the copies is another one"

# Runs with settings of their own, as 'recollect reproduce' lays them out, stand apart.
run paper/cifar100-5/order-0/rdfcil rdfcil 0 5 50 65
run paper/cifar100-5-published/order-0/rdfcil rdfcil 0 5 51 66
mkdir "$work/apart"
"$python" "$bench/results.py" --collect "$work/apart" "$work/paper" >"$work/table"
[ "$(ls "$work/apart" | tr '\n' ' ')" = "cifar100-5-published-rdfcil-order-0.json cifar100-5-rdfcil-order-0.json " ] ||
    fail "what was collected of variants: $(ls "$work/apart")"
grep -qF '| rdfcil | 50.00 | 49.90' "$work/table" || fail "the plain row: $(cat "$work/table")"
grep -qF '| rdfcil-published | 51.00 | 50.47 ± 0.43 (+0.53) |' "$work/table" || fail "the row with settings of its own: $(cat "$work/table")"
"$python" "$bench/results.py" "$work/apart"/*.json >"$work/table"
grep -qF '| rdfcil-published | 51.00 | 50.47 ± 0.43 (+0.53) |' "$work/table" || fail "a copy is another row: $(cat "$work/table")"

"$python" - "$work/set" <<'PYTHON'
import pathlib, sys
for part, count in ("train", 6), ("test", 3):
    for number, name in enumerate(("black", "grey", "white")):
        folder = pathlib.Path(sys.argv[1], part, name)
        folder.mkdir(parents=True)
        for each in range(count):
            (folder / f"{each}.pgm").write_bytes(b"P5 16 16 255\n" + bytes([120 * number + each] * 256))
PYTHON
"$python" "$bench/photos.py" measure "$work/set" --images 5 --lessons 2,1 --out "$work/lessons.jsonl" --recollect "$program" \
    --name quick --seed 3 -- --method finetune --epochs 1 --set refine_epochs=0 --set min_steps=1 --threads 1 >"$work/said"
[ "$(wc -l <"$work/lessons.jsonl")" = 2 ] || fail "a line for each lesson: $(cat "$work/lessons.jsonl")"
"$python" "$bench/photos.py" table "$work/lessons.jsonl" >"$work/table"
grep -q '^| set | images a class | settings | 2 classes | 3 | CPU seconds | peak MiB |$' "$work/table" ||
    fail "heads of the table of lessons: $(cat "$work/table")"
grep -qE '^\| set \| 5 \| quick \| [0-9.]+ \| [0-9.]+ \| [0-9]+ \+ [0-9]+ = [0-9]+ \| [1-9][0-9]* \|$' "$work/table" ||
    fail "row of two lessons: $(cat "$work/table")"
"$python" - "$work/lessons.jsonl" <<'PYTHON' || fail "what the lines say: $(cat "$work/lessons.jsonl")"
import json, sys
first, second = map(json.loads, open(sys.argv[1]))
assert (first["lesson"], first["classes"], first["tested"], first["seed"]) == (1, 2, 6, 3), first
assert (second["lesson"], second["classes"], second["tested"], second["trained"]) == (2, 3, 9, 4), second
assert 0 < first["cpu_seconds"] + second["cpu_seconds"] and 0 <= second["accuracy"] <= 100
PYTHON
if "$python" "$bench/photos.py" measure "$work/set" --images 5 --lessons 2,2 --out "$work/x" 2>"$work/said"; then
    fail "more classes than there are"
fi
grep -q "has 3 classes, expected 4 or more" "$work/said" || fail "too many classes: $(cat "$work/said")"
