#!/usr/bin/env bash
# Every function of the public header is called by an example: whoever looks for how to use it finds it there.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
functions=$(sed '/^#/d' "$root/include/recollect/recollect.h" | tr '\n' ' ' | grep -oE 'RECOLLECT_API [^;]*;' |
    sed -E 's/^[^(]*[ *](recollect_[a-z0-9_]+)\(.*/\1/' | sort -u)
count=$(wc -w <<<"$functions")
[ "$count" -gt 40 ] || { echo "FAILED: found only $count functions in the header"; exit 1; }
missing=
for function in $functions; do
    grep -q "\b$function(" "$root"/examples/*.c || missing="$missing $function"
done
[ -z "$missing" ] || { echo "FAILED: no example calls$missing"; exit 1; }
echo "ok: $count functions"
