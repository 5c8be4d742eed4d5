#!/usr/bin/env bash
# recollect export: what it writes, where it refuses to, and that nothing is overwritten or left half. What other programs
# make of the files: test_export.c and tests/interop.
#
# usage: test_export.sh RECOLLECT EXPORTED
set -uo pipefail
export LC_ALL=C
recollect=$(realpath "$1") exported=$(realpath "$2")
work=$(mktemp -d "${TMPDIR:-/tmp}/recollect-export-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}
expect() { # expect CODE TEXT ARGUMENT...: the code, and the text on stdout or stderr
    local code=$1 text=$2 found
    shift 2
    "$recollect" "$@" >out.txt 2>&1
    found=$?
    [ $found -eq "$code" ] || fail "recollect $*: code $found, expected $code: $(cat out.txt)"
    grep -qF -- "$text" out.txt || fail "recollect $*: no '$text' in: $(cat out.txt)"
}

"$exported" resnet-small 8 1 3 1 . || fail "no model"
cp model.safetensors before

expect 2 "which model?" export
expect 2 "as what? --onnx FILE, --torch FILE or --c-header FILE says it" export model.safetensors
expect 2 "option '--onnx' is empty" export model.safetensors --onnx ''
expect 2 "unexpected argument 'm.onnx'" export model.safetensors m.onnx
expect 1 "cannot open 'nothing'" export nothing --onnx m.onnx
expect 1 "header" export logits --onnx m.onnx
[ ! -e m.onnx ] || fail "a file was written without a model"
expect 1 "is the model that is read" export model.safetensors --torch ./model.safetensors --force
ln -s model.safetensors link
expect 1 "is the model that is read" export model.safetensors --onnx link --force
expect 1 "--onnx and --c-header name the same file" export model.safetensors --onnx x --c-header x
expect 1 "make the folder first" export model.safetensors --onnx no/m.onnx
mkdir folder
expect 1 "is a folder" export model.safetensors --c-header folder
cmp -s model.safetensors before || fail "the model was written"

expect 0 "net.h: " export model.safetensors --onnx net.onnx --torch net.safetensors --c-header net.h
cat net.onnx net.safetensors net.h >first
grep -aqF '"recollect.exif":"true"' net.safetensors || fail "it is not said that pictures are turned"
echo mine >net.h
expect 1 "replace it with --force" export model.safetensors --onnx other.onnx --c-header net.h
[ "$(cat net.h)" = mine ] || fail "a file was replaced without --force"
[ ! -e other.onnx ] || fail "a file was written although another could not be"
expect 0 "net.h: " export model.safetensors --onnx net.onnx --torch net.safetensors --c-header net.h --force
cat net.onnx net.safetensors net.h >second
cmp -s first second || fail "the same model gives other bytes"
expect 1 "it was exported for PyTorch: take the model that it was made of" export net.safetensors --onnx again.onnx
expect 1 "it was exported for PyTorch: take the model that it was made of" import net.safetensors --out again.safetensors
expect 1 "it begins like an ONNX graph, which cannot learn" export net.onnx --onnx again.onnx
expect 2 "option '--onnx' is '-', expected FILE" export model.safetensors --onnx -
[ ! -e ./- ] || fail "a file called '-' was written"
expect 0 "./-: " export model.safetensors --onnx ./-
cmp -s net.onnx ./- || fail "a file called './-' is another one"
# The comment of a header names the file itself, where it can.
expect 0 "Net-2.hpp: " export model.safetensors --c-header Net-2.hpp
grep -q '^ \*     #include "Net-2.hpp"  ' Net-2.hpp || fail "a header names another file: $(grep -m 1 include Net-2.hpp)"
expect 0 "a b.h: " export model.safetensors --c-header 'a b.h'
grep -q '^ \*     #include "a_b.h"  ' 'a b.h' || fail "a name in a comment: $(grep -m 1 include 'a b.h')"
(ulimit -f 1; "$recollect" export model.safetensors --c-header large.h) >out.txt 2>&1
[ $? -eq 1 ] || fail "a header that cannot be written: $(cat out.txt)"
[ -z "$(ls large.h* 2>/dev/null)" ] || fail "half of a header: $(ls large.h*)"

[ $failures -eq 0 ] && echo ok
exit $((failures > 0))
