#!/usr/bin/env bash
# Every function of the public header is called by an example: whoever looks for how to use it finds it there. The program
# of tests/trust that lets memory run out calls every one, too.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
functions=$(sed '/^#/d' "$root/include/recollect/recollect.h" | tr '\n' ' ' | grep -oE 'RECOLLECT_API [^;]*;' |
    sed -E 's/^[^(]*[ *](recollect_[a-z0-9_]+)\(.*/\1/' | sort -u)
count=$(wc -w <<<"$functions")
[ "$count" -gt 40 ] || { echo "FAILED: found only $count functions in the header"; exit 1; }
called_by() { # WHO FILE...
    local who=$1 function missing=
    shift
    for function in $functions; do
        grep -q "\b$function(" "$@" || missing="$missing $function"
    done
    [ -z "$missing" ] || { echo "FAILED: $who does not call$missing"; exit 1; }
}
called_by "any example" "$root"/examples/*.c
called_by tests/trust/use_api.c "$root/tests/trust/use_api.c"
echo "ok: $count functions"
