# Sourced by the sweeps: which of its points a sweep tries, and what became of each.
#   PART=K/N     every N-th point alone, from the K-th on, so that N processes share a sweep
#   TRIED=FILE   gets a line "COMMAND POINT OUTCOME" for each point; a point that is in it already is not tried again. The
#                outcome of all is the number of points of a command, in all parts.
#   UNTIL=TIME   of day, in seconds since 1970, after which no other point is tried
PART=${PART:-1/1}
if [ -n "${TRIED:-}" ]; then TRIED=$(realpath "$TRIED"); fi

# to_try COMMAND: of the points on stdin, one a line, those that are left to this process.
to_try() {
    local tried=/dev/null
    if [ -n "${TRIED:-}" ] && [ -e "$TRIED" ]; then tried=$TRIED; fi
    awk -v command="$1" -v part="${PART%/*}" -v parts="${PART#*/}" -v tried="$tried" '
        BEGIN { while ((getline line <tried) > 0) { split(line, word, " "); if (word[1] == command) seen[word[2]] = 1 } }
        (NR - part) % parts == 0 && !($1 in seen) { print $1 }'
}
time_is_up() { [ -n "${UNTIL:-}" ] && [ "$(date +%s)" -ge "$UNTIL" ]; }
# COMMAND: were all of its points tried, by whatever process?
all_tried() {
    [ -n "${TRIED:-}" ] && [ -e "$TRIED" ] &&
        awk -v command="$1" '$1 == command { if ($2 == "all") all = $3; else tried++ } END { exit !all || tried < all }' "$TRIED"
}
outcome() { # COMMAND POINT OUTCOME
    if [ -n "${TRIED:-}" ]; then echo "$*" >>"$TRIED"; fi
}
