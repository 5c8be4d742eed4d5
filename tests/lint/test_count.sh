#!/usr/bin/env bash
# The counts of docs/testing.md: they are true now; and script/count notices one that is too high, one that is far too low
# and one that nobody counts, writes them anew, and leaves a true one alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
script/count --check
page=$(mktemp)
trap 'rm -f "$page"' EXIT
fail() { echo "FAILED: $1" >&2; exit 1; }

# refuses TEXT COUNTED: the check fails, and says so of that count.
refuses() {
    local said
    echo "$1" >"$page"
    if said=$(script/count --check --page "$page"); then fail "'$1' passes"; fi
    grep -q "'$2'" <<<"$said" || fail "'$1': $said"
}
refuses 'more than <!--n:code-->9,000,000<!----> lines' code
refuses 'more than <!--n:code-->10,000<!----> lines' code
refuses 'more than <!--n:tests--><!----> lines' tests
refuses 'more than <!--n:moons-->3<!----> moons' moons

echo 'more than <!--n:code-->1<!----> lines and <!--n:fuzz-->9,999<!----> targets' >"$page"
script/count --page "$page" >/dev/null
script/count --check --page "$page" || fail 'what it wrote is not true'
grep -qE '^more than <!--n:code-->[1-9][0-9]*,000<!----> lines and <!--n:fuzz-->[1-9][0-9]*<!----> targets$' "$page" ||
    fail "it wrote $(cat "$page")"
echo 'script/count notices what is not true'
