#!/usr/bin/env bash
# A stage of script/test that cannot run is skipped with a reason, and is a failure where nothing may be skipped. Tried
# with the stage of CUDA, which takes nvcc: a folder of the path that has it gives way to one with all else of it.
#
# usage: test_stages.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
fail() { echo "test_stages: FAILED: $*" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folders=()
IFS=: read -ra all <<<"$PATH"
for folder in "${all[@]}"; do
    if [ -e "$folder/nvcc" ]; then
        rest=$work/${#folders[@]}
        mkdir "$rest"
        ln -s "$folder"/* "$rest"
        rm "$rest/nvcc"
        folder=$rest
    fi
    folders+=("$folder")
done
PATH=$(IFS=:; echo "${folders[*]}")
out=$(env -u RECOLLECT_TEST_NO_SKIP "$root/script/test" cuda 2>&1) || fail "without nvcc: code $?: $out"
grep -qE '^cuda +skipped: nvcc is not installed$' <<<"$out" || fail "without nvcc no reason is given: $out"
code=0
out=$(RECOLLECT_TEST_NO_SKIP=1 "$root/script/test" cuda 2>&1) || code=$?
[ $code -eq 1 ] || fail "where nothing may be skipped, code $code, expected 1: $out"
grep -qE '^cuda +FAILED: nvcc is not installed, and nothing may be skipped here$' <<<"$out" || fail "no reason: $out"
grep -qF 'test: FAILED: cuda' <<<"$out" || fail "the stage that failed is not named: $out"
code=0
out=$("$root/script/test" nonsense 2>&1) || code=$?
[ $code -eq 2 ] && grep -qF "unknown stage 'nonsense'" <<<"$out" || fail "an unknown stage: code $code: $out"
echo "test_stages: passed"
