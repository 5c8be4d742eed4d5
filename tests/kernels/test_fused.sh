#!/usr/bin/env bash
# The fast kernels live from fused multiply-adds, and one compiler flag in the wrong order silently takes them away: at
# least one object of an instruction set that has them must contain them. The register tiles (tile.c) must fuse all of
# them: a tile of another shape that multiplies first and adds later gives other bits.
#
# usage: test_fused.sh OBJDUMP OBJECT...
set -euo pipefail
objdump=$1
shift
count=$("$objdump" -d "$@" | grep -cE '\s(v?fmadd[0-9]*[a-z]*|fmla|fmls|fnmadd|fmsub)\s' || true)
echo "$count fused multiply-adds"
[ "$count" -gt 0 ]
tiles=()
for object in "$@"; do
    if [[ ${object##*/} == tile.* ]]; then tiles+=("$object"); fi
done
[ ${#tiles[@]} -eq 1 ] || { echo "FAILED: ${#tiles[@]} objects are named tile, expected one"; exit 1; }
alone=$("$objdump" -d "${tiles[0]}" | awk '/^[0-9a-f]+ <.*>:$/ { name = $2 } /[ \t](v?mulps|v?mulss|fmul)[ \t]/ { print name }' | sort | uniq -c)
if [ -n "$alone" ]; then
    echo "FAILED: multiplications that are not fused with their addition, in ${tiles[0]}:"
    echo "$alone"
    exit 1
fi
