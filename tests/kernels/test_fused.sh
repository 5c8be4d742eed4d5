#!/usr/bin/env bash
# The fast kernels live from fused multiply-adds, and one compiler flag in the wrong order silently takes them away: at
# least one object of an instruction set that has them must contain them.
#
# usage: test_fused.sh OBJDUMP OBJECT...
set -euo pipefail
objdump=$1
shift
count=$("$objdump" -d "$@" | grep -cE '\s(v?fmadd[0-9]*[a-z]*|fmla|fmls|fnmadd|fmsub)\s' || true)
echo "$count fused multiply-adds"
[ "$count" -gt 0 ]
