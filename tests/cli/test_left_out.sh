#!/usr/bin/env bash
# Nothing vanishes: learn, eval and predict on folders with files of other formats, hidden and stray ones, and links.
# Everything that is not read is named and counted, and --strict makes it an exit code.
#
# usage: test_left_out.sh RECOLLECT MAKE_IMAGES
set -uo pipefail
export LC_ALL=C
recollect=$(realpath "$1") make_images=$(realpath "$2")
pictures=$(cd "$(dirname "$0")/../fixtures/pictures" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/recollect-left-out-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}
# run CODE ARGUMENTS...: with that exit code
run() {
    local code=$1 found
    shift
    "$recollect" "$@" >out.txt 2>err.txt
    found=$?
    [ $found -eq "$code" ] || fail "recollect $*: exit code $found, expected $code: $(tail -n 3 err.txt)"
}
told() { grep -qxF -- "$1" err.txt || fail "stderr has no line '$1': $(cat err.txt)"; }
silent() { ! grep -qF -- "$1" err.txt || fail "stderr holds '$1': $(grep -F -- "$1" err.txt)"; }

make_heic() { printf '\0\0\0\030ftypheic\0\0\0\0mif1heic' >"$1"; }
quick=(--size 16 --set net_width=8 --set generator_width=16 --set batch=32 --set min_steps=2 --epochs 1 --threads 1)
"$make_images" procedural:10 train 0 2 20 png clean
classes=(clean/*/)
first=${classes[0]%/} second=${classes[1]%/}

# ---- nothing to tell ------------------------------------------------------------------------------------------------
run 0 learn clean --out clean.safetensors "${quick[@]}"
silent "left out"
run 0 predict clean.safetensors clean --strict
silent "left out"
[ "$(wc -l <out.txt)" -eq 40 ] || fail "40 pictures, $(wc -l <out.txt) answers"
run 0 eval clean.safetensors clean
silent "left out"

# ---- a folder as people have it ---------------------------------------------------------------------------------------
cp -r clean mess
a=mess/${first##*/} b=mess/${second##*/}
for i in 1 2 3 4 5 6 7 8; do make_heic "$a/IMG_$i.heic"; done
printf '%%PDF-1.7' >"$b/scan.pdf"
echo "cat 1" >"$b/labels.txt"
printf 'x' >"$a/Thumbs.db"
mkdir "$a/.trash" && cp "$a"/*.png "$a/.trash/"
cp "$(find clean -name '*.png' | head -n 1)" mess/stray.png
ln -s .. "$a/loop"
ln -s "../${b##*/}" "$a/others"
run 0 learn mess --out mess.safetensors "${quick[@]}"
cmp -s clean.safetensors mess.safetensors || fail "what is left out changes what is learnt"
told "left out: mess/stray.png (a picture beside the class folders; move it into the folder of its class)"
told "left out: $a/IMG_1.heic (HEIC; convert it: heif-convert IMG_1.heic IMG_1.jpg)"
told "left out: $a/.trash (a hidden folder; rename it if its pictures are wanted)"
told "left out: and 3 more"
told "left out in all: 13 (pictures beside the class folders: 1, HEIC: 8, hidden folders: 1, PDF: 1, links in circles: 1, folders that are read anyway: 1)"
told "not read, because they are no pictures: $a/Thumbs.db and 1 more"
grep -q "^warning: 13 files, folders or links of the data were not read" out.txt || fail "learn does not end with the count: $(cat out.txt)"
run 0 learn mess --out mess.safetensors "${quick[@]}" --force --json
grep -q '"left_out":13,"not_pictures":2,' out.txt || fail "learn --json does not count: $(cat out.txt)"
run 0 eval clean.safetensors mess --json
grep -q '"images":40,.*"left_out":13,"not_pictures":2,' out.txt || fail "eval --json does not count: $(cat out.txt)"

# ---- predict: answers for the others, and says so at the end ------------------------------------------------------------
run 0 predict clean.safetensors "$b"
told "left out: $b/scan.pdf (PDF; convert it: pdftoppm -png scan.pdf scan)"
told "left out in all: 1 (PDF: 1)"
told "not read, because it is no picture: $b/labels.txt"
[ "$(wc -l <out.txt)" -eq 20 ] || fail "20 pictures, $(wc -l <out.txt) answers"
run 3 predict clean.safetensors "$b" --strict
run 0 predict clean.safetensors "$b" --json
[ "$(tail -n 1 out.txt)" = '{"left_out":1}' ] || fail "predict --json does not count: $(tail -n 1 out.txt)"
told "left out in all: 1 (PDF: 1)"
run 0 predict clean.safetensors clean --json
! grep -q left_out out.txt || fail "predict --json counts nothing: $(tail -n 1 out.txt)"
run 1 predict clean.safetensors "$a/IMG_1.heic" --strict
grep -qF "cannot decode '$a/IMG_1.heic': no picture that this build of recollect reads: HEIC; convert it: heif-convert IMG_1.heic IMG_1.jpg" err.txt ||
    fail "a HEIC file that is named itself: $(cat err.txt)"
mkdir only && make_heic only/x.heic
run 1 predict clean.safetensors only
grep -qF "only: the folder holds no picture" err.txt && grep -qF "only/x.heic (HEIC; " err.txt ||
    fail "a folder of HEIC alone: $(cat err.txt)"
run 1 learn only --out x "${quick[@]}"
grep -qF "only/x.heic (HEIC; convert it: " err.txt || fail "learn from a folder of HEIC alone: $(cat err.txt)"

# ---- links: each folder once ------------------------------------------------------------------------------------------
mkdir -p far more/here && cp "$first"/*.png far/ && cp "$second"/*.png more/here/
ln -s ../../far more/here/away
ln -s ../far more/again
ln -s .. more/here/round
ln -s . more/self
run 3 predict clean.safetensors more --strict
[ "$(wc -l <out.txt)" -eq 40 ] || fail "a link is followed once: 40 pictures, $(wc -l <out.txt) answers"
told "left out: more/here/round (a link to a folder whose pictures are read anyway)"
told "left out in all: 3 (folders that are read anyway: 3)"
ln -s ../../.. more/here/top
run 3 predict clean.safetensors more --strict
told "left out: more/here/top (a link that leads back to where it lies)"

# ---- the formats of this build ----------------------------------------------------------------------------------------
mkdir many && cp "$pictures"/{rgb.bmp,rgb.png,grey.jpg,bytes.ppm,lossy.webp,lzw.tiff,palette.gif} many/
run 0 info
grep '^pictures ' out.txt >formats.txt
run 0 predict clean.safetensors many
answers=$(wc -l <out.txt) without=$(grep -c "^left out: many/.* build recollect with lib\|^left out: many/.* build recollect with gif" err.txt)
[ $((answers + without)) -eq 7 ] || fail "7 files, $answers answers and $without left out: $(cat out.txt err.txt)"
for format in WebP TIFF GIF; do
    if head -n 1 formats.txt | grep -q "$format"; then
        silent "($format; "
    else
        grep -q "($format; build recollect with " err.txt || fail "$format is neither read nor named: $(cat err.txt)"
        sed -n 2p formats.txt | grep -q "$format" || fail "info does not say what is missing for $format"
    fi
done
grep -q "^many/rgb.bmp: " out.txt || fail "BMP is not read"
# Damaged files of every library: it is recollect that says so, in its own words.
mkdir damaged
for file in lossy.webp lossless.webp lzw.tiff jpeg.tif deflate.tif palette.gif rgb.bmp; do
    size=$(wc -c <"$pictures/$file")
    head -c $((size * 2 / 3)) "$pictures/$file" >"damaged/${file%.*}-cut.${file##*.}"
done
run 1 predict clean.safetensors damaged/*
! grep -vE '^(recollect|note): ' err.txt || fail "a library printed that: $(cat err.txt)"
grep -q "7 of 7 could not be read" err.txt || fail "7 damaged files: $(cat err.txt)"

[ $failures -eq 0 ] && echo "test_left_out: passed"
exit $((failures > 0))
