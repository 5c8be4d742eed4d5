# What tests of the program share; they set $recollect before.
failures=0
fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}
# expect CODE TEXT ARGUMENTS...: the exit code, and a line of stdout or stderr that holds the text
expect() {
    local code=$1 text=$2 found
    shift 2
    "$recollect" "$@" >out.txt 2>err.txt
    found=$?
    [ $found -eq "$code" ] || fail "recollect $*: exit code $found, expected $code: $(tail -n 3 err.txt)"
    grep -qF -- "$text" out.txt err.txt || fail "recollect $*: no '$text' in: $(tail -n 3 out.txt err.txt)"
}
