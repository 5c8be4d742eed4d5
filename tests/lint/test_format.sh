#!/usr/bin/env bash
# script/format brings a file into its format, --check notices one that is not, and leaves alone what it is told to.
#
# usage: test_format.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
fail() { echo "test_format: FAILED: $*" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src" "$work/tests/abi"
cp "$root/.clang-format" "$work"
cp "$root/tests/abi/.clang-format" "$work/tests/abi"
printf 'int  twice( int x ){return 2*x;}\n' | tee "$work/src/a.c" >"$work/tests/abi/old.h"
printf 'static int b;\n' >"$work/src/b.cu"
code=0
out=$("$root/script/format" --check --root "$work" 2>&1) || code=$?
if [ $code -eq 77 ]; then echo "$out"; exit 77; fi
[ $code -eq 1 ] && grep -qF '1 file(s) are not in their format' <<<"$out" && grep -qF 'src/a.c' <<<"$out" ||
    fail "a file that is not in its format: code $code: $out"
"$root/script/format" --root "$work" >/dev/null
printf 'int twice(int x)\n{\n    return 2 * x;\n}\n' | diff - "$work/src/a.c" || fail "this is not the format"
grep -qF 'int  twice( int x )' "$work/tests/abi/old.h" || fail "an old header has changed"
"$root/script/format" --check --root "$work" >/dev/null || fail "what has been formatted is not in its format"
mkdir "$work/empty"
for folder in /usr/bin /bin; do ln -sf $folder/* "$work/empty" 2>/dev/null || true; done
rm -f "$work"/empty/clang-format*
code=0
env -u RECOLLECT_TEST_NO_SKIP PATH="$work/empty" "$root/script/format" --check --root "$work" 2>/dev/null || code=$?
[ $code -eq 77 ] || fail "without clang-format: code $code, expected 77"
code=0
RECOLLECT_TEST_NO_SKIP=1 PATH="$work/empty" "$root/script/format" --check --root "$work" 2>/dev/null || code=$?
[ $code -eq 1 ] || fail "without clang-format, where nothing may be skipped: code $code, expected 1"
echo "test_format: passed"
