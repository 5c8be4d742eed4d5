#!/usr/bin/env bash
# Names, keys, values, lines and tensors that hold control characters, marks of direction or no UTF-8 at all go through
# every command. What reaches stdout and stderr is UTF-8 without any of them, and no line is one that a name brought.
#
# usage: test_escapes.sh RECOLLECT MAKE_IMAGES
set -uo pipefail
export LC_ALL=C
recollect=$(realpath "$1") make_images=$(realpath "$2")
work=$(mktemp -d "${TMPDIR:-/tmp}/recollect-escapes-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0 runs=0
fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# C0 but the newline, DEL, C1, marks of direction, what has no width, tags. (The program's own newlines end its lines.)
hidden='[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f\xad]|\xd8\x9c|\xe1\xa0\x8e|\xe2\x80[\x8b-\x8f\xa8-\xae]'
hidden+='|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf|\xef\xbf[\xb9-\xbb\xbe\xbf]|\xf3\xa0[\x80-\xbf]'
printf 'a\xe2\x80\xae' | grep -qaP "$hidden" || fail "the pattern finds nothing"
printf 'a\xe2\x80\xad' | grep -qaP "$hidden" || fail "the pattern finds too little"
printf 'gr\xc3\xbcn\n' | grep -qaP "$hidden" && fail "the pattern finds too much"

# check CODE TEXT ARGUMENT...: the exit code, the (escaped) text on stdout or stderr, and both streams harmless.
check() {
    local code=$1 text=$2 found stream
    shift 2
    timeout 60 "$recollect" "$@" >out.txt 2>err.txt </dev/null
    found=$?
    runs=$((runs + 1))
    [ "$code" = any ] || [ $found -eq "$code" ] || fail "$1 ...: exit code $found, expected $code: $(head -c 300 err.txt)"
    [ $found -lt 124 ] || fail "$1 ...: exit code $found"
    grep -qF -- "$text" out.txt err.txt || fail "$1 ...: no '$text' in: $(head -c 400 err.txt)"
    for stream in out.txt err.txt; do
        ! grep -qaP "$hidden" $stream || fail "$* sends a control character to $stream: $(head -c 400 $stream | od -c | head)"
        ! grep -qa '^FORGED' $stream || fail "$* lets a name forge a line of $stream"
        iconv -f UTF-8 -t UTF-8 $stream >/dev/null || fail "$* sends to $stream what is no UTF-8"
    done
}

# everywhere NAME SHOWN: as a command, an option, a value, a setting, a method, a file that is not there.
everywhere() {
    local name=$1 shown=$2
    check 2 "$shown" "x$name"
    check 2 "$shown" "--x$name"
    check 2 "$shown" learn "--x$name"
    check 2 "$shown" selftest --seed "$name"
    check 2 "$shown" selftest --op "$name"
    check 2 "$shown" bench --step "$name"
    check 2 "$shown" bench --net "$name"
    check 2 "$shown" info --net "$name"
    check any "$shown" run "x$name"
    check 1 "$shown" run "./$name.yaml"
    check 2 "$shown" run demo --set "x$name=1" --out no
    check 2 "$shown" run demo --set "epochs=$name" --out no
    check 2 "profile" run demo --set "profile=$name" --out no
    check any "" run demo --method "$name" --out no
    check 2 "$shown" run demo --orders "$name" --out no
    check 1 "$shown" run demo --data "./$name" --out no
    check 2 "$shown" run demo --data procedural --out no --tasks "$name,"
    check 1 "$shown" learn "./$name" --out no.safetensors
    check 1 "$shown" learn "./$name.safetensors" pictures --out no.safetensors
    check 1 "$shown" learn pictures --out "none/$name"
    check 2 "$shown" learn pictures --out no.safetensors --method "x$name"
    check 1 "$shown" learn pictures --out no.safetensors --preset "./$name"
    check 2 "$shown" learn pictures --out no.safetensors --format "x$name"
    check 1 "$shown" info "./$name"
    check 1 "$shown" dream "./$name"
    check 1 "$shown" dream model.safetensors --out "./$name/x/$(printf 'y%.0s' {1..300})"
    check 1 "$shown" predict "./$name" picture.png
    check 1 "$shown" predict model.safetensors "./$name"
    check 1 '"error"' predict model.safetensors "./$name" --json
    check 1 "$shown" eval model.safetensors "./$name"
    check 2 "" completion "$name"
    check 0 "data: " run demo --data "./$name" --print-config
}

"$make_images" procedural:4 train 0 2 12 png pictures || fail "no pictures"
picture=$(find pictures -name '*.png' | sort | head -n 1)
cp "$picture" picture.png
check 0 "2 classes" learn pictures --out model.safetensors --size 16 --set net_width=8 --set generator_width=16 \
    --set batch=8 --set inversion_steps=5 --set min_steps=5 --epochs 2 --threads 1

# ---- names on the command line --------------------------------------------------------------------------------------
everywhere $'a\nFORGED: cat 99.9 %\e[31m\xe2\x80\xae' 'FORGED: cat 99.9 %\u001b[31m\u202e'
everywhere $'\a\r\t\x7f\xc2\x85\xe2\x80\x8b\xef\xbb\xbf\xe2\x80\xa8\xf3\xa0\x81\x81\xff\xe2\x82z' '\u200b\ufeff\u2028\udb40\udc41'
RANDOM=7
for ((i = 0; i < 40; i++)); do
    name=a
    for ((k = RANDOM % 20; k >= 0; k--)); do
        byte=$(printf '\\x%02x' $((RANDOM % 255 + 1)))
        [ "$byte" = '\x2f' ] || name+=$(printf '%bX' "$byte") # the X keeps a newline
        [ "$byte" = '\x2f' ] || name=${name%X}
    done
    check 2 "" "$name"
    check 2 "" run demo --set "$name"
    check 1 "" predict model.safetensors "$name"
    check any "" learn "$name" --out no.safetensors
done

# ---- names of files that are there ----------------------------------------------------------------------------------
bad=$'b\nFORGED: cat 99.9 %\e[31m\xe2\x80\xae\xff'
shown='b\nFORGED: cat 99.9 %\u001b[31m\u202e\xff'
mkdir named named/x "$bad"
cp picture.png "named/$bad.png"
cp picture.png "$bad/one.png"
echo broken >"named/x/$bad.png"
check 0 "named/$shown.png: " predict model.safetensors "named/$bad.png"
check 0 "$shown/one.png: " predict model.safetensors "$bad"
check 1 "named/x/$shown.png" predict model.safetensors named
[ "$(grep -c . out.txt)" = 1 ] || fail "predict prints $(grep -c . out.txt) lines for one picture"
check 0 '"top"' predict model.safetensors "named/$bad.png" --json
printf 'named/x/%s.png\n' $'c\e[31m\xe2\x80\xae' >names
timeout 60 "$recollect" predict model.safetensors --list - <names >out.txt 2>err.txt
grep -qF 'named/x/c\u001b[31m\u202e.png' err.txt || fail "predict --list: $(cat -v err.txt)"
mkdir classes classes/x classes/y
cp picture.png classes/x/1.png
cp picture.png classes/y/1.png
cp picture.png classes/y/2.png
echo broken >"classes/y/$bad.png"
check 1 "classes/y/$shown.png" learn classes --out no.safetensors
check 0 "skipped: " learn classes --out "$bad.safetensors" --skip-broken --size 16 --set net_width=8 --epochs 2 \
    --set generator_width=16 --set batch=2 --set min_steps=2 --threads 1
grep -qF "$shown.safetensors: 2 classes" out.txt || fail "learn does not name its model: $(cat -v out.txt)"
check 0 "classes" info "$bad.safetensors"
check 0 '"classes"' info "$bad.safetensors" --json
mkdir folders "folders/$bad"
cp picture.png "folders/$bad/1.png"
check 1 "folder '$shown'" learn folders --out no.safetensors

# ---- lists, YAML, models --------------------------------------------------------------------------------------------
printf 'a\e[31m\xe2\x80\xae\xff none\n' >list.txt
check 1 '\u001b[31m\u202e\xff none' learn list.txt --out no.safetensors
printf 'a\e[31m\xe2\x80\xae\xff.png 0\n' >list.txt
check 1 'a\u001b[31m\u202e\xff.png' learn list.txt --out no.safetensors
printf '"epochs\\e[31m\\n\\u202e": 1\n' >key.yaml
check 2 'epochs\u001b[31m\n\u202e' run key.yaml
printf 'epochs: "\\e[31m\\nFORGED\\u202e"\n' >value.yaml
check 2 '\u001b[31m\nFORGED\u202e' run value.yaml
printf 'model: {"x\\e[31m\\nFORGED\\u202e": 1}\n' >ignored.yaml
check 0 'model.x\u001b[31m\nFORGED\u202e' run ignored.yaml --print-config
printf 'data: "\\nFORGED\\u202e\\U000E0041\\"\x27\\\\"\n' >data.yaml
check 0 'data: "\U0000000aFORGED\U0000202e\U000e0041\"'"'"'\\"' run data.yaml --print-config
cp out.txt again.yaml
cp again.yaml first.txt
check 0 "" run ./again.yaml --print-config
cmp -s out.txt first.txt || fail "a configuration with escapes does not load again as it was: $(diff first.txt out.txt)"
# header JSON...: a file of that header and eight bytes
header() {
    printf "\\x$(printf %02x $((${#1} % 256)))\\x$(printf %02x $((${#1} / 256)))\\0\\0\\0\\0\\0\\0%s12345678" "$1"
}
header '{"t":{"dtype":"\u001b[31m\nFORGED\u202e","shape":[2],"data_offsets":[0,8]}}' >dtype.safetensors
check 1 '\u001b[31m\nFORGED\u202e' info dtype.safetensors
header '{"\u001b[31m\nFORGED\u202e":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}' >name.safetensors
check 1 '\u001b[31m\nFORGED\u202e' info name.safetensors
header '{"__metadata__":{"\u001b[31m\nFORGED\u202e":3}}' >metadata.safetensors
check 1 'metadata.safetensors' info metadata.safetensors
sed 's/cwd/\xe2\x80\xae/' model.safetensors >method.safetensors
check 1 '\u202e' info method.safetensors
sed 's/min_steps/\xe2\x80\xae\xe2\x80\xae\xe2\x80\xae/' model.safetensors >setting.safetensors
check 1 '\u202e\u202e\u202e' predict setting.safetensors picture.png

[ $failures -eq 0 ] || exit 1
echo "$runs runs, nothing but text"
