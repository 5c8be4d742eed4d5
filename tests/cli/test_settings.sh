#!/usr/bin/env bash
# A value that a setting or an option does not take is wrong usage (2) with every command, before anything is read:
# every row of docs/settings.md below and above its range, through every command that has --set, and every option that
# takes a number.
#
# usage: test_settings.sh PROGRAM DOCS
set -uo pipefail
program=$1
page=$2/settings.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0 tried=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

# What stands beside the options, so that only the option is wrong. No file of these names exists.
arguments_of() {
    case $1 in
        run) echo "demo --data procedural:10 --out no" ;;
        learn) echo "no-folder --out no.safetensors" ;;
        predict | eval) echo "no.safetensors no-folder" ;;
        dream) echo "no.safetensors" ;;
        analyze) echo "dkl no-run" ;;
        report | watch) echo "no-run" ;;
        reproduce) echo "table-ablation" ;;
        *) echo ;;
    esac
}
refused() { # refused TEXT COMMAND ARGUMENT...: with code 2, and a message that has the text
    local text=$1 message code
    shift
    # shellcheck disable=SC2046
    message=$("$program" "$1" $(arguments_of "$1") "${@:2}" 2>&1 >/dev/null)
    code=$?
    tried=$((tried + 1))
    if [ $code -ne 2 ]; then
        fail "$*: code $code, expected 2: $message"
    elif ! grep -qF -- "$text" <<<"$message"; then
        fail "$*: no '$text' in: $message"
    fi
}

commands=$("$program" --help | sed '/^examples:/,$d' | awk '/^  [a-z]/ { print $1 }')
setters=()
for command in $commands; do
    if "$program" "$command" --help | grep '^  --set ' >/dev/null; then setters+=("$command"); fi
done
[ "${setters[*]}" = "learn run analyze" ] || fail "commands with --set are '${setters[*]}': a new one has a row above"

# ---- every setting ---------------------------------------------------------------------------------------------------
# name, what it takes; the page is compared with the program elsewhere (unit/settings).
rows=0
while IFS='|' read -r name takes; do
    case $takes in
        "true or false") wrong=(maybe '') ;;
        "at most "*) wrong=("$(head -c $(($(tr -dc 0-9 <<<"$takes") + 1)) /dev/zero | tr '\0' x)") ;;
        [0-9]*" to "*)
            read -r low _ high _ <<<"${takes//,/}"
            wrong=("$(awk -v x="$low" 'BEGIN { printf "%.12g", x - 1 }')" nan abc '' 99999999999999999999)
            if [ "$name" != seed ] && [ "$high" != 2147483647 ]; then
                wrong+=("$(awk -v x="$high" 'BEGIN { printf "%.12g", (x >= 1 ? x + 1 : x + 0.01) }')")
            fi
            if [ "$name" = milestone ]; then wrong=(-1 1000001 abc 80,40); fi
            ;;
        *) wrong=(wrong '' -1) ;; # a list of choices
    esac
    for command in "${setters[@]}"; do
        for value in "${wrong[@]}"; do refused "$name" "$command" --set "$name=$value"; done
    done
    rows=$((rows + 1))
done < <(sed -n 's/^| `\([a-z_]*\)` | [^|]* | \([^|]*\) | [^|]* | [^|]* |$/\1|\2/p' "$page")
[ $rows -gt 60 ] || fail "only $rows settings were found in $page"

# Texts that mean something.
for command in "${setters[@]}"; do
    for pair in format=tarball mean=bright mean=0.5,0.5 mean=2 std=0 std=0.2,0.2,0.2,0.2 class_order=backwards \
        class_order=30000 task_sizes=6,0 task_sizes=6,x net=generator net=resnet generator=resnet32; do
        refused "${pair%%=*}" "$command" --set "$pair"
    done
    refused "sets nothing" "$command" --set epochs
    refused "there is no setting" "$command" --set zzz=1
done
printf 'batch: 1\n' >wrong.yaml
refused "batch is 1" learn --preset wrong.yaml
refused "data format" learn --format tarball
refused "data format" eval --format tarball

# ---- every option that takes a number --------------------------------------------------------------------------------
for command in $commands; do
    while read -r option argument _; do
        for value in -1 abc 1.5x '' 99999999999999999999; do
            refused "" "$command" "$option" "$value"
        done
    done < <("$program" "$command" --help | grep -E '^  --[a-z-]+ +(N|SIZE|SECONDS|PERCENT)([ ,]|$)')
done

# ---- what is in range, but does not go together, is not known before the model or the data is ----------------------------
mkdir photos photos/a photos/b
"$program" learn photos --out no.safetensors --set epochs=20 --set refine_epochs=20 >/dev/null 2>message
[ $? -eq 1 ] || fail "learn: values that do not go together: $(cat message)"
grep -q 'refine_epochs is 20, expected 0 to 19' message || fail "learn does not say what does not go together: $(cat message)"

[ $failures -eq 0 ] || { echo "$failures of $tried failed"; exit 1; }
echo "ok: $tried wrong values of $rows settings and of options, all refused with code 2"
