#!/usr/bin/env bash
# Programs that were compiled with an earlier state of the header work with the library of today.
#
# tests/abi has for each state N before that of the header (RECOLLECT_API_VERSION): recollect_N.h, a copy of it;
# symbols_N.txt, the functions that it declares; and program_N.c, which uses all of them. Nothing here ever changes.
#
# usage: test_abi.sh LIBRARY PROGRAM...   the shared library, and program_1, program_2, ... compiled
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
header=$here/../../include/recollect/recollect.h
library=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}
functions() { # the functions that a header declares
    sed '/^#/d' "$1" | tr '\n' ' ' | grep -oE 'RECOLLECT_API [^;]*;' | sed -E 's/^[^(]*[ *](recollect_[a-z0-9_]+)\(.*/\1/' | sort -u
}
nm -D --defined-only "$library" | awk '{ print $NF }' | sort -u >"$work/exported"
functions "$header" >"$work/declared"
[ "$(wc -l <"$work/declared")" -gt 40 ] || fail "the header declares $(wc -l <"$work/declared") functions, expected more"
only=$(comm -3 "$work/exported" "$work/declared" | tr -s '\t\n' ' ')
[ -z "$only" ] || fail "the library and its header differ in$only"

state=$(sed -n 's/^#define RECOLLECT_API_VERSION \([0-9]*\)$/\1/p' "$header")
[ $# -eq $((state - 1)) ] || fail "the header is in state $state, but there are $# programs of states before"
for ((n = 1; n < state; n++)); do
    functions "$here/recollect_$n.h" | cmp -s - "$here/symbols_$n.txt" || fail "symbols_$n.txt is not what recollect_$n.h declares"
    gone=$(comm -13 "$work/exported" "$here/symbols_$n.txt" | tr '\n' ' ')
    [ -z "$gone" ] || fail "the library has no more: $gone"
    while read -r symbol; do
        grep -q "$symbol(" "$here/program_$n.c" || fail "program_$n.c does not use $symbol"
    done <"$here/symbols_$n.txt"
    mkdir "$work/$n"
    (cd "$work/$n" && "${!n}") || fail "program_$n does not work with this library"
done
[ $failures -eq 0 ] && echo "ok: $(wc -l <"$work/exported") functions, programs of $((state - 1)) earlier state(s) work"
exit $((failures > 0))
