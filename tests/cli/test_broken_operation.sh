#!/usr/bin/env bash
# The test of the tests: an operation that is broken on purpose must fail its selftest (exit code 1, not a crash or a
# usage error) and be named, while the same selftest passes without the damage.
#
# usage: test_broken_operation.sh PROGRAM
set -uo pipefail
program=$1
operations='conv_forward conv_backward_data conv_backward_weight bn_train loss_cross_entropy loss_rkd sgd dense_forward'
checked=$("$program" selftest --list) || exit 1
failures=0
complain() { # complain TEXT OUTPUT
    echo "FAILED: $1"
    tail -n 20 <<<"$2"
    failures=$((failures + 1))
}

for operation in $operations; do
    if ! grep -qx "$operation" <<<"$checked"; then
        complain "the selftest does not list $operation" "$checked"
        continue
    fi
    if ! output=$("$program" selftest --quick --op "$operation" 2>&1); then
        complain "selftest of $operation fails without damage" "$output"
    fi
    output=$(RECOLLECT_BREAK_OP=$operation "$program" selftest --quick --op "$operation" 2>&1)
    code=$?
    if [ $code -ne 1 ]; then
        complain "selftest with a broken $operation ended with code $code, expected 1" "$output"
    elif ! grep -qE "^FAIL +$operation " <<<"$output"; then
        complain "selftest does not name the broken operation $operation" "$output"
    else
        echo "ok: a broken $operation is noticed"
    fi
done
[ $failures -eq 0 ]
