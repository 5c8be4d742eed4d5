#!/usr/bin/env bash
# Every stop of the tour in docs/architecture.md is there: a row '| 3 | `file`: `name` | ...' names a file below src/ that
# defines the function, or the macro, of that name. No path has more than eight stops.
set -euo pipefail
cd "$(dirname "$0")/../.."
stops=0 missing=0
while IFS='|' read -r _ number where _; do
    file=$(sed -E 's/^ *`([^`]*)`: `[^`]*` *$/\1/' <<<"$where")
    name=$(sed -E 's/^ *`[^`]*`: `([^`]*)` *$/\1/' <<<"$where")
    stops=$((stops + 1))
    if [ "$number" -gt 8 ]; then
        echo "docs/architecture.md: a path has more than eight stops"
        missing=$((missing + 1))
    fi
    if ! grep -qsE "^(#define |[a-z].*[ *])$name\(" "src/$file"; then
        echo "docs/architecture.md: stop$number is '$name' in src/$file, which is not defined there"
        missing=$((missing + 1))
    fi
done < <(grep -E '^\| [0-9]+ \|' docs/architecture.md)
[ $stops -ge 15 ] || { echo "docs/architecture.md: only $stops stops were found"; exit 1; }
[ $missing -eq 0 ] || exit 1
echo "$stops stops are there"
