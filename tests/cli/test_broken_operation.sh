#!/usr/bin/env bash
# The test of the tests: with one operation broken on purpose the selftest must fail (exit code 1, not a crash or a
# usage error) and name the operation. Every operation that a test build can break gets its turn.
#
# usage: test_broken_operation.sh PROGRAM
set -uo pipefail
# The program lists them when it is asked for one that it cannot break.
listed=$(RECOLLECT_BREAK_OP=none "$1" selftest --op sgd 2>&1)
case $listed in
    *expected*) ;;
    *) echo "FAILED: no list of operations that can be broken in: $listed"; exit 1 ;;
esac
read -ra operations <<<"$(sed -n 's/.*expected //; s/,//g; s/ or / /p' <<<"$listed")"
if [ ${#operations[@]} -lt 8 ]; then
    echo "FAILED: expected 8 or more operations that can be broken, got: ${operations[*]}"
    exit 1
fi
failures=0
for operation in "${operations[@]}"; do
    # A fault of one percent shows in any case whose result is not 0 by chance.
    for number in 0 1 2; do
        output=$(RECOLLECT_BREAK_OP=$operation "$1" selftest --quick --op "$operation" --case $number 2>&1)
        code=$?
        [ $code -eq 0 ] || break
    done
    if [ $code -ne 1 ] || ! grep -q "^MISS  $operation case" <<<"$output" ||
        ! grep -q "^      again: recollect selftest --backend cpu .* --op $operation --case $number --quick$" <<<"$output"; then
        echo "FAILED: selftest with a broken $operation ended with code $code, expected 1, its name and how to see it again:"
        printf '%s\n' "$output" | tail -n 20
        failures=$((failures + 1))
    fi
done
exit $((failures > 0))
