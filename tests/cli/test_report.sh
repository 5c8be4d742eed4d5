#!/usr/bin/env bash
# recollect report: where the page goes, what is never replaced, what the tables are, and what wrong usage and damaged
# runs are told.
#
# usage: test_report.sh PROGRAM RESULTS    RESULTS: the folder of the results of real runs
set -euo pipefail
program=$1 results=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
expect() { # expect CODE TEXT ARGUMENT...: the code, and the text on either stream
    local code=$1 text=$2 found=0 said
    shift 2
    said=$("$program" report "$@" 2>&1) || found=$?
    [ $found -eq "$code" ] || fail "report $*: code $found, expected $code: $said"
    grep -qF -- "$text" <<<"$said" || fail "report $*: '$text' is not in: $said"
}

mkdir -p "$work/run/cwd"
cp "$results/cifar100-20-cwd-order-1.json" "$work/run/cwd/results.json"
expect 0 "$work/run/report.html: 1 run of 1 method, " "$work/run"
[ "$(wc -c <"$work/run/report.html")" -lt 2000000 ] || fail "the page of 20 tasks and 100 classes is not below 2 MB"
grep -q '</html>' "$work/run/report.html" || fail "the page has no end"
cp "$work/run/report.html" "$work/first"
expect 0 "$work/run/report.html" "$work/run" # a report is replaced by the next one
cmp "$work/first" "$work/run/report.html" || fail "the same run gives two pages"
echo "my diary" >"$work/run/report.html"
expect 1 "report.html' is there, and no report: remove it, or choose another name" "$work/run"
grep -q diary "$work/run/report.html" || fail "a file that is no report was replaced"
"$program" report "$work/run" --csv >"$work/one" 2>"$work/said"
[ ! -s "$work/said" ] || fail "said of one run: $(cat "$work/said")"
expect 0 "left out: 1 copy of runs that are there already" "$work/run" "$work/run/cwd" --csv
"$program" report "$work/run" "$work/run/cwd" --csv 2>/dev/null | cmp - "$work/one" || fail "a copy counts as a run"
all=("$results"/*.json)
expect 0 "$work/all.html: ${#all[@]} runs of" "${all[@]}" --out "$work/all.html"
if "$program" report "$work/run" --csv >/dev/full 2>"$work/said"; then fail "tables on a full disk"; fi
grep -qF 'results could not be written' "$work/said" || fail "what is said of a full disk: $(cat "$work/said")"

expect 0 '| CwD | 31.74 | 31.72 ± 0.22 | +0.02 | 47.90 | 49.01 ± 1.81 | −1.11 | 1 |' "$work/run" --table paper --markdown
expect 0 'CwD & 31.74 & 31.72 ± 0.22 & +0.02 & 47.90 & 49.01 ± 1.81 & −1.11 & 1 \\' "$work/run" --table paper --latex
expect 0 '"cifar100",20,"CwD",31.74,,31.72,0.22,0.02,47.89649353,,49.01,1.81,-1.113506473,1' "$work/run" --table paper --csv
for format in --markdown --latex --csv; do
    expect 0 "the table 'ledger' is empty: these runs have none of its numbers" "$work/run" --table ledger $format
done
"$program" report "$work/run" --csv --out "$work/tables.csv" >/dev/null
for table in last forgetting task_20 paper_last inversion '"CwD"' taken_for setting machine; do
    grep -q -- "$table" "$work/tables.csv" || fail "the tables lack $table"
done

expect 2 "which run?"
expect 2 "--markdown, --latex or --csv: which one?" "$work/run" --csv --latex
expect 2 "--table is for --markdown, --latex and --csv" "$work/run" --table paper
expect 2 "option '--table' is 'papers', expected accuracy|tasks|paper" "$work/run" --table papers --csv
expect 2 "where shall the page go?" "$work/run" "$work/run"
expect 2 "where shall the page go?" "$work/run/cwd/results.json"
mkdir "$work/empty"
expect 1 "there is no run in '$work/empty' whose first cell has begun: expected a folder" "$work/empty"
expect 1 "cannot open '$work/nowhere'" "$work/nowhere" --csv
expect 1 "cannot open '$work/nowhere'" "$work/nowhere"
mkdir -p "$work/torn/cwd"
head -c 5000 "$work/run/cwd/results.json" >"$work/torn/cwd/results.json"
expect 1 "$work/torn/cwd/results.json" "$work/torn"
[ ! -e "$work/torn/report.html" ] || fail "a torn run has a report"
sed 's/"accuracy": 74.0/"accuracy": 740/' "$work/run/cwd/results.json" >"$work/torn/cwd/results.json"
expect 1 "accuracy 740, expected a number from 0 to 100" "$work/torn"
expect 1 "cannot" "$work/run" --out "$work/no/such/folder.html"
echo "passed"
