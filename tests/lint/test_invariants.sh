#!/usr/bin/env bash
# Everything that docs/invariants.md names as a test exists: 'unit/x: a, b' are tests in unit/test_x.c, other paths are
# files below tests/.
set -euo pipefail
cd "$(dirname "$0")/../.."
named=0 missing=0
complain() { echo "docs/invariants.md names $1, which is not there"; missing=$((missing + 1)); }
while IFS= read -r cell; do
    while IFS= read -r reference; do
        reference=$(sed 's/^ *//; s/ *$//' <<<"$reference")
        case $reference in
            unit/*:*)
                file=tests/unit/test_${reference#unit/}
                file=${file%%:*}.c
                for test in $(tr ',' ' ' <<<"${reference#*:}"); do
                    named=$((named + 1))
                    grep -qsE "(TEST|cmocka_unit_test|IN_FOLDER)\($test[,)]" "$file" || complain "$test in $file"
                done
                ;;
            *)
                named=$((named + 1))
                [ -e "tests/$reference" ] || complain "tests/$reference"
                ;;
        esac
    done < <(tr ';' '\n' <<<"$cell")
done < <(grep '^|' docs/invariants.md | grep -vE '^\| (---|invariant|rule|promise) ' | awk -F'|' '{ print $(NF - 1) }')
[ $named -gt 40 ] || { echo "only $named tests are named"; exit 1; }
[ $missing -eq 0 ] || exit 1
echo "$named tests are there"
