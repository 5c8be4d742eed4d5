#!/usr/bin/env bash
# The test of the tests: with one operation broken on purpose the selftest must fail (exit code 1, not a crash or a
# usage error) and name the operation.
#
# usage: test_broken_operation.sh PROGRAM
set -uo pipefail
operation=conv_forward
output=$(RECOLLECT_BREAK_OP=$operation "$1" selftest --quick 2>&1)
code=$?
if [ $code -ne 1 ]; then
    echo "FAILED: selftest with a broken $operation ended with code $code, expected 1"
    printf '%s\n' "$output" | tail -n 20
    exit 1
fi
if ! grep -q "$operation" <<<"$output"; then
    echo "FAILED: selftest does not name the broken operation $operation"
    printf '%s\n' "$output" | tail -n 20
    exit 1
fi
