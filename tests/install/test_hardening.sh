#!/usr/bin/env bash
# What is installed is hardened: position-independent, nothing both writable and executable, no code on the stack, tables
# of the loader read-only from the start, stacks guarded, sizes of buffers checked by the C library, jumps marked where the
# compiler can do that. No path of the machine that built it is in it.
#
# usage: test_hardening.sh BUILD_DIRECTORY SOURCE_DIRECTORY
set -euo pipefail
build=$(cd "$1" && pwd) source=$(cd "$2" && pwd)
fail() { echo "test_hardening: FAILED: $*" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
cd "$work"
cmake --install "$build" --prefix "$work/prefix" >/dev/null
count=0
while read -r file; do
    name=${file##*/}
    [[ $name != *_cuda* ]] || continue # compiled and linked as nvcc does it
    headers=$(readelf -hlW "$file") dynamic=$(readelf -dW "$file")
    grep -qE '^ *Type: +DYN' <<<"$headers" || fail "$name lies at a fixed address"
    grep -qE 'GNU_RELRO' <<<"$headers" || fail "$name: the tables of the loader stay writable"
    grep -qE 'BIND_NOW|Flags:.* NOW' <<<"$dynamic" || fail "$name: functions are looked up late, in a writable table"
    stack=$(grep -E '^ *GNU_STACK' <<<"$headers") || fail "$name does not say what its stack may hold"
    ! grep -qE 'RWE' <<<"$stack" || fail "$name: code may run on its stack"
    ! grep -E '^ *LOAD' <<<"$headers" | grep -qE ' RWE ' || fail "$name: a part is writable and executable"
    ! grep -qE 'TEXTREL|RPATH|RUNPATH' <<<"$dynamic" || fail "$name: $(grep -E 'TEXTREL|RPATH|RUNPATH' <<<"$dynamic")"
    if [[ $name != *_mpi* ]]; then # which copies into no buffer
        symbols=$(nm -D --undefined-only "$file")
        grep -qE '__stack_chk_fail' <<<"$symbols" || fail "$name: stacks are not guarded"
        grep -qE '__(snprintf|memcpy|vsnprintf|read)_chk' <<<"$symbols" || fail "$name: sizes of buffers are not checked"
    fi
    count=$((count + 1))
done < <(find "$work/prefix" -type f \( -name recollect -path '*/bin/*' -o -name '*.so*' \))
[ $count -ge 2 ] || fail "only $count files were looked at"

# Whether a whole program has marked jumps is up to the C library's own start files; recollect's objects have them.
library=$(find "$work/prefix" -name librecollect.a)
objects=$(ar t "$library" | wc -l)
case $(uname -m) in
    aarch64) mark=BTI ;;
    x86_64) mark=IBT ;;
    *) mark= ;;
esac
if [ -n "$mark" ]; then
    marked=$(readelf -nW "$library" | grep -c "Properties:.*$mark" || true)
    [ "$marked" -eq "$objects" ] || fail "jumps are marked in $marked of $objects objects"
fi
for folder in "$source/src" "$build/CMakeFiles"; do
    if grep -rlF "$folder" "$work/prefix/bin" "$library" "${library%.a}.so"; then fail "the path $folder is in these files"; fi
done
# What it is linked with is listed: each name once, with a checksum.
"$source/script/sbom" "$work/prefix/bin/recollect" >sbom.json 2>message || fail "no list of what is linked: $(<message)"
for name in $(readelf -dW "$work/prefix/bin/recollect" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p'); do
    [ "$(grep -cE "\"name\": \"$name\", .*\"checksumValue\": \"[0-9a-f]{64}\"" sbom.json)" -eq 1 ] || fail "$name is not in the list"
done
echo "test_hardening: passed, $count files and $objects objects"
