#!/usr/bin/env bash
# Tables of predict and eval: a line of names, then one line for each image or class, whatever their names are.
#
# usage: test_csv.sh RECOLLECT MAKE_IMAGES
set -uo pipefail
export LC_ALL=C
recollect=$(realpath "$1") make_images=$(realpath "$2")
work=$(mktemp -d "${TMPDIR:-/tmp}/recollect-csv-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}
same() { # same WHAT EXPECTED FOUND
    cmp -s "$2" "$3" || { diff "$2" "$3"; fail "$1"; }
}

"$make_images" procedural:3 train 0 3 6 png made
mkdir classes
for name in 'salt, pepper' 'the "other"' plain; do
    mv "made/$(ls made | sed -n 1p)" "classes/$name"
done
"$recollect" learn classes --out model.safetensors --size 16 --epochs 1 --set min_steps=2 --set net_width=4 \
    --threads 1 >/dev/null 2>message || fail "learn: $(cat message)"
picture=$(find classes -name '*.png' | sort | sed -n 1p)
mkdir pictures
for name in '=1+1.png' 'a,b.png' 'c"d"e.png' $'f\ng.png' plain.png; do cp "$picture" "pictures/$name"; done
echo 'no picture' >pictures/z.png

# ---- predict ---------------------------------------------------------------------------------------------------------
"$recollect" predict model.safetensors pictures --csv --top 2 --threads 1 >out.txt 2>message
[ $? -eq 1 ] || fail "predict --csv does not exit with 1 for a picture that cannot be read"
sed -E 's/,[0-9][0-9.e+-]*/,N/g; s/"(salt, pepper|the ""other""|plain)"/CLASS/g' out.txt >shown
cat >expected <<'CSV'
file,class_1,probability_1,class_2,probability_2,unfamiliarity,stranger,none_of_these,error
"pictures/=1+1.png",CLASS,N,CLASS,N,N,,false,
"pictures/a,b.png",CLASS,N,CLASS,N,N,,false,
"pictures/c""d""e.png",CLASS,N,CLASS,N,N,,false,
"pictures/f\ng.png",CLASS,N,CLASS,N,N,,false,
"pictures/plain.png",CLASS,N,CLASS,N,N,,false,
CSV
head -n 6 shown >first
same "predict --csv" expected first
sed -n 7p out.txt | grep -q '^"pictures/z.png",,,,,,,,"[^"]*pictures/z.png[^"]*"$' || fail "no line for what cannot be read: $(sed -n 7p out.txt)"
[ "$(wc -l <out.txt)" -eq 7 ] || fail "predict --csv has $(wc -l <out.txt) lines for 6 pictures"

# The same numbers as in JSON; as many classes as there are, and no more.
"$recollect" predict model.safetensors "$picture" --csv --top 9 --threads 1 >out.txt 2>/dev/null || fail "predict --csv --top 9"
"$recollect" predict model.safetensors "$picture" --json --top 9 --threads 1 >json.txt 2>/dev/null
head -n 1 out.txt | grep -qx 'file,class_1,probability_1,class_2,probability_2,class_3,probability_3,unfamiliarity,stranger,none_of_these,error' ||
    fail "three classes are $(head -n 1 out.txt)"
grep -oE '"(probability|unfamiliarity)":[0-9.e+-]+' json.txt | cut -d: -f2 | awk '{ printf "%.3e\n", $1 }' >expected
sed -n 2p out.txt | grep -oE ',[0-9][0-9.e+-]*' | tr -d , | awk '{ printf "%.3e\n", $1 }' >shown
[ "$(wc -l <expected)" -eq 4 ] || fail "no numbers in $(cat json.txt)"
same "predict --csv has other numbers than --json" expected shown
grep -oE '"class":"([^"\\]|\\.)*"' json.txt | cut -d: -f2- | sed 's/\\"/""/g' >expected
sed -n 2p out.txt | grep -oE ',"([^"]|"")*"' | sed 's/^,//' >shown
same "predict --csv has other classes than --json" expected shown

# A model without class statistics has one of another kind, and rates only of held-out images; what has no images has a line of names.
"$recollect" learn classes --out plain.safetensors --method finetune --size 16 --epochs 1 --set min_steps=2 \
    --set net_width=4 --threads 1 >/dev/null 2>&1
"$recollect" predict plain.safetensors "$picture" --csv --top 1 >out.txt 2>/dev/null
sed -n 2p out.txt | grep -qE ',[0-9.e+-]+,[0-9.e+-]+,,false,$' || fail "a model without statistics: $(cat out.txt)"
"$recollect" predict model.safetensors --csv --list --top 1 - </dev/null >out.txt 2>/dev/null
[ "$(cat out.txt)" = file,class_1,probability_1,unfamiliarity,stranger,none_of_these,error ] || fail "no images: $(cat out.txt)"
"$recollect" predict model.safetensors "$picture" --csv --json >out.txt 2>message
[ $? -eq 2 ] && grep -q 'JSON or CSV?' message || fail "predict takes --json and --csv together"
if [ -e /dev/full ]; then
    "$recollect" predict model.safetensors "$picture" --csv >/dev/full 2>/dev/null
    [ $? -eq 1 ] || fail "predict --csv to a full disk"
    "$recollect" predict model.safetensors pictures --csv >/dev/full 2>message
    grep -q '1 of 6 could not be read' message && grep -q 'results could not be written' message ||
        fail "a full disk beside a broken picture: $(cat message)"
fi

# What is said of a picture names the option, as all messages do.
{ printf 'P5 4000 4000 255\n' && head -c 16000000 /dev/zero; } >large.pgm
"$recollect" predict model.safetensors large.pgm --csv --max-memory 30M >out.txt 2>message
grep -q 'are allowed. --max-memory allows more' message && grep -q 'are allowed. --max-memory allows more"$' out.txt ||
    fail "a picture beyond --max-memory: $(cat message out.txt)"

# ---- eval ------------------------------------------------------------------------------------------------------------
"$recollect" eval model.safetensors classes --csv >out.txt 2>/dev/null || fail "eval --csv"
sed -E 's/,[0-9]+/,N/g' out.txt >shown
cat >expected <<'CSV'
"true\predicted","plain","salt, pepper","the ""other"""
"plain",N,N,N
"salt, pepper",N,N,N
"the ""other""",N,N,N
CSV
same "eval --csv" expected shown
[ "$(grep -oE ',[0-9]+' out.txt | tr -d , | awk '{ sum += $1 } END { print sum }')" -eq 18 ] || fail "the matrix does not add up"

[ $failures -eq 0 ] || { echo "$failures failure(s)"; exit 1; }
