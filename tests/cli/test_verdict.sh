#!/usr/bin/env bash
# What 'learn' and 'eval' say beside a number: the verdict, intervals, warnings with a command to try, --strict. The
# commands that they suggest are run.
#
# usage: test_verdict.sh RECOLLECT MAKE_IMAGES
set -uo pipefail
export LC_ALL=C
recollect=$(realpath "$1") make_images=$(realpath "$2")
work=$(mktemp -d "${TMPDIR:-/tmp}/recollect-verdict-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir bin && ln -s "$recollect" bin/recollect # suggested commands call it by its name
failures=0
fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}
# expect CODE VERDICT ARGUMENTS...: the exit code, and the first line of stdout
expect() {
    local code=$1 verdict=$2 found
    shift 2
    "$recollect" "$@" >out.txt 2>err.txt
    found=$?
    [ $found -eq "$code" ] || fail "recollect $*: exit code $found, expected $code: $(tail -n 3 err.txt)"
    [ "$(head -n 1 out.txt)" = "Verdict: $verdict" ] || fail "recollect $*: '$(head -n 1 out.txt)', expected '$verdict'"
}
says() { # says TEXT: a line of stdout holds it
    grep -qF -- "$1" out.txt || fail "no '$1' in: $(cat out.txt)"
}
suggested() { # the command that the last text or JSON suggests for the warning that holds the text
    grep -A 1 -F -- "$1" out.txt | sed -n 's/^  [^:]*: \(recollect .*\)/\1/p'
}
# Runs what was suggested for a warning: it exits with CODE.
follow() {
    local code=$1 command found
    command=$(suggested "$2")
    [ -n "$command" ] || fail "nothing is suggested for '$2' in: $(cat out.txt)"
    PATH="$work/bin:$PATH" bash -c "$command" >followed.txt 2>err.txt
    found=$?
    [ $found -eq "$code" ] || fail "'$command' exits with $found, expected $code: $(cat err.txt)"
}

tiny=(--size 16 --set net_width=8 --set generator_width=16 --set batch=32 --set inversion_steps=20
    --set min_steps=100 --epochs 16 --threads 1)
short=(--epochs 2 --set min_steps=1 --set inversion_steps=2)
"$make_images" procedural:10 train 0 6 32 png first
"$make_images" procedural:10 train 6 8 32 png second
"$make_images" procedural:10 test 0 6 20 png old
"$make_images" procedural:10 test 6 8 20 png new
mkdir -p both tested/val TEST && cp -r old/* new/* both/ && cp -r first tested/train && cp -r old/* tested/val/ && cp -r old/* TEST/

# ---- learn: enough images, too few, none ----------------------------------------------------------------------------
expect 0 "good" learn tested --out good.safetensors "${tiny[@]}" --strict
grep -qE "^accuracy on 120 held-out images of the new classes: [0-9.]+ % \(95 % interval: [0-9.]+ to [0-9.]+ %\)$" out.txt ||
    fail "no interval: $(cat out.txt)"
[ "$(wc -l <out.txt)" -eq 3 ] || fail "a good lesson has warnings: $(cat out.txt)"
expect 0 "too few images to tell (1 warning below)" learn first --out few.safetensors "${tiny[@]}"
says "too few to tell)"
says "warning: the accuracy says little, because only 18 images were scored: it may be anything from "
follow 0 "because only 18 images"
grep -q "^accuracy" followed.txt || fail "the suggested command scores nothing: $(cat followed.txt)"
expect 3 "too few images to tell (1 warning below)" learn first --out strict.safetensors "${tiny[@]}" --strict
grep -qF "learn: 1 warning, so --strict exits with 3" err.txt || fail "--strict does not say why: $(cat err.txt)"
cmp -s few.safetensors strict.safetensors || fail "--strict does not save the same model"
"$recollect" learn first --out full.safetensors "${tiny[@]}" --strict >/dev/full 2>err.txt
[ $? -eq 1 ] || fail "a verdict that could not be written does not fail"
mapfile -t pictures < <(find old -type f | sort)
mkdir -p single/cat single/dog && cp "${pictures[0]}" single/cat/ && cp "${pictures[30]}" single/dog/
expect 3 "too few images to tell (1 warning below)" learn single --out y "${tiny[@]}" --set min_steps=2 --strict
says "warning: no image was held out, so nothing says how good the model is"
[ "$(suggested "no image was held out")" = "recollect eval y TEST" ] || fail "suggested for nothing: $(cat out.txt)"
grep -q "^accuracy" out.txt && fail "an accuracy of nothing: $(cat out.txt)"

# What was learnt in a moment is near chance or weak; the suggested lesson takes twice as long, and is else the same.
"$recollect" learn tested --out brief.safetensors "${tiny[@]}" "${short[@]}" >out.txt 2>err.txt || fail "$(cat err.txt)"
[ "$(suggested "warning: the accuracy is ")" = "recollect learn tested --out brief.safetensors --force --size 16 --set net_width=8 --set generator_width=16 --set batch=32 --set inversion_steps=20 --set min_steps=100 --set min_steps=1 --set inversion_steps=2 --threads 1 --epochs 4" ] ||
    fail "suggested for a brief lesson: $(cat out.txt)"
# The same where --set says how long: the suggestion does not say it twice.
set_epochs=(--size 16 --set net_width=8 --set epochs=2 --set min_steps=1 --threads 1)
"$recollect" learn tested --out brief.safetensors --force "${set_epochs[@]}" >out.txt 2>err.txt || fail "$(cat err.txt)"
[ "$(suggested "warning: the accuracy is ")" = "recollect learn tested --out brief.safetensors --force --size 16 --set net_width=8 --set min_steps=1 --threads 1 --epochs 4" ] ||
    fail "suggested for a brief lesson of --set epochs: $(cat out.txt)"
follow 0 "warning: the accuracy is "

# ---- learn: one image of a class, imbalance, what was left out; the same as JSON ------------------------------------
cp -r first "odd 'one" && mkdir "odd 'one/zebra" && cp "${pictures[7]}" "odd 'one/zebra/" && ln -s . "odd 'one/zebra/round"
expect 0 "too few images to tell (4 warnings below)" learn "odd 'one" --out odd.safetensors "${tiny[@]}" "${short[@]}" \
    --skip-broken
says "warning: 1 of 7 classes was not scored, because none of their images was held out: 'zebra'"
says "warning: 1 class has less than a third of the 29 images of 'bar-plain-cyan': 'zebra' (1)"
says "warning: 1 file, folder or link of the data was not read"
command=$(suggested "less than a third")
[ "$command" = "recollect learn 'odd '\\''one' --out odd.safetensors --force --epochs 2 --size 16 --set net_width=8 --set generator_width=16 --set batch=32 --set inversion_steps=20 --set min_steps=100 --set min_steps=1 --set inversion_steps=2 --skip-broken --threads 1" ] ||
    fail "the lesson again: $command"
follow 0 "less than a third"
"$recollect" learn "odd 'one" --out odd.safetensors --force "${tiny[@]}" "${short[@]}" --json --strict >out.txt 2>err.txt
[ $? -eq 3 ] || fail "--json --strict: $(cat err.txt)"
[ "$(wc -l <out.txt)" -eq 1 ] || fail "--json prints more than a line"
says '"verdict":"too_few","verdict_text":"too few images to tell","warnings":[{"code":"too_few","text":"the accuracy says'
says '{"code":"classes_not_scored","text":"1 of 7 classes was not scored, because none of their images was held out: '"'zebra'"'","classes":["zebra"],"command":"recollect eval odd.safetensors TEST"}'
grep -q '"accuracy":[0-9.]*,"accuracy_interval":\[[0-9.]*,[0-9.]*\],"old_images":0,"old_accuracy_before":null,"old_accuracy_before_interval":null,' out.txt ||
    fail "--json has no intervals: $(cat out.txt)"

# ---- learn: the same pictures in two classes, and among those that are held out ----------------------------------------
cp -r tested twins
mapfile -t classes < <(ls twins/train)
mapfile -t copied < <(find "twins/train/${classes[0]}" -type f | sort | head -n 3)
cp "${copied[0]}" "twins/train/${classes[1]}/copied.png"
cp "${copied[1]}" "${copied[2]}" "twins/val/${classes[0]}/" # in place of others
"$recollect" learn twins --out twins.safetensors "${tiny[@]}" "${short[@]}" >out.txt 2>err.txt || fail "$(cat err.txt)"
says "warning: 2 images lie in two classes or more, such as '${classes[0]}' and '${classes[1]}', which no model can tell apart by them"
says "warning: 2 of 120 held-out images were trained on, too, as another file with the same picture: the accuracy flatters"
follow 0 "lie in two classes or more"

# ---- learn: an old class by another name; eval, too ---------------------------------------------------------------------
mkdir -p spelt/Bar_plain-cyan && cp first/bar-plain-cyan/* spelt/Bar_plain-cyan/
"$recollect" learn good.safetensors spelt --out spelt.safetensors --threads 1 >out.txt 2>err.txt || fail "$(cat err.txt)"
says "warning: 'bar-plain-cyan' and 'Bar_plain-cyan' are different classes, although their names differ in capitals, accents or blanks alone"
follow 0 "are different classes"
cp -r old spelt-old && mv spelt-old/bar-plain-cyan spelt-old/Bar_plain-cyan
"$recollect" eval good.safetensors spelt-old >out.txt 2>err.txt || fail "$(cat err.txt)"
says "because the model does not know their classes: 'Bar_plain-cyan' (it knows 'bar-plain-cyan')"

# ---- learn: old classes, of which fine-tuning keeps nothing ----------------------------------------------------------
cp good.safetensors ./-dash.safetensors
expect 3 "old classes suffered (3 warnings below)" learn --out tuned.safetensors --method finetune \
    --old-test both --strict -- -dash.safetensors second
says "warning: the accuracy on old classes is no better than guessing: "
grep -qE "^accuracy on 120 images of old classes: [0-9.]+ % before \([0-9.]+ to [0-9.]+ %\), [0-9.]+ % after \([0-9.]+ to [0-9.]+ %\)$" out.txt ||
    fail "no intervals of old classes: $(cat out.txt)"
# The same images before and after: what was lost less what was gained is the difference.
read -r before after < <(sed -nE 's/^accuracy on 120 images of old classes: ([0-9.]+) % before.*, ([0-9.]+) % after.*/\1 \2/p' out.txt)
read -r lost gained < <(sed -nE 's/.*of 120 images ([0-9]+) were right before the lesson and are wrong now, and ([0-9]+) the other.*/\1 \2/p' out.txt)
awk -v b="$before" -v a="$after" -v l="$lost" -v g="$gained" 'BEGIN { d = 1.2 * (b - a) - (l - g); exit !(l > g && d < 0.5 && d > -0.5) }' ||
    fail "$lost lost and $gained gained of 120 do not make $before % $after %"
[ "$(suggested "lost more than chance explains")" = "recollect learn ./-dash.safetensors second --out tuned.safetensors --force --old-test both --method cwd" ] ||
    fail "suggested for lost classes: $(cat out.txt)"
expect 0 "$(head -n 1 out.txt | cut -c 10-)" learn good.safetensors second --out again.safetensors --method finetune --old-test both
"$recollect" learn good.safetensors second --out x.safetensors --old-test old --set lambda_hkd=0 "${short[@]}" --epochs 60 \
    >out.txt 2>err.txt || fail "$(cat err.txt)"
[ "$(suggested "lost more than chance explains")" = "recollect learn good.safetensors second --out x.safetensors --force --epochs 60 --set lambda_hkd=0 --set min_steps=1 --set inversion_steps=2 --old-test old --merge" ] ||
    fail "suggested for classes that CwD lost: $(cat out.txt)"
says "  put a few images of old classes beside the new ones: "
cp -r second merged && mkdir merged/bar-plain-cyan && cp "$(find old/bar-plain-cyan -name '*.png' | sort | head -n 1)" merged/bar-plain-cyan/
"$recollect" learn good.safetensors merged --merge --out x.safetensors --force --old-test old --set lambda_hkd=0 "${short[@]}" \
    --epochs 60 >out.txt 2>err.txt || fail "$(cat err.txt)"
says "  put more images of old classes beside the new ones: " # a few are there
expect 0 "too few images to tell (1 warning below)" learn good.safetensors second --out x.safetensors --force --method finetune
says "old classes were not scored"
"$recollect" learn good.safetensors second --out y.safetensors --method finetune --old-test new >out.txt 2>err.txt
[ $? -eq 1 ] && grep -q "^recollect: learn: new has no image of a class that the model knows: bar-plain-cyan, " err.txt ||
    fail "an old test without old classes is not refused: $(cat out.txt err.txt)"
grep -q "2 new classes" err.txt && fail "an old test without old classes is refused too late: $(cat err.txt)"

# ---- eval ------------------------------------------------------------------------------------------------------------
expect 0 "good" eval good.safetensors old --strict
grep -qE "^accuracy +[0-9.]+ %  \(120 images, 6 classes; 95 % interval: [0-9.]+ to [0-9.]+ %\)$" out.txt || fail "eval has no interval: $(cat out.txt)"
grep -qE "^top-5 +[0-9.]+ %  \([0-9.]+ to [0-9.]+ %\)$" out.txt || fail "top-5 has no interval: $(cat out.txt)"
grep -qE "^    1  bar-plain-cyan +[0-9.]+ %  \(20 images; [0-9.]+ to [0-9.]+ %" out.txt || fail "classes have no interval: $(cat out.txt)"
grep -q "^warning" out.txt && fail "a warning without a reason: $(cat out.txt)"
expect 3 "good (1 warning below)" eval good.safetensors both --strict
says "warning: 40 images were left out, because the model does not know their classes: 'frame-plain-red', 'halfdisc-plain-white'"
[ "$(suggested "does not know their classes")" = "recollect learn good.safetensors FOLDER --out NEW.safetensors" ] ||
    fail "suggested for unknown classes: $(cat out.txt)"
expect 0 "no better than guessing (1 warning below)" eval tuned.safetensors old
says "warning: the accuracy is no better than guessing: "
grep -qE "^task 1 +[0-9.]+ %  \(120 images, classes 1 to 6; [0-9.]+ to [0-9.]+ %\)$" out.txt || fail "tasks have no interval: $(cat out.txt)"
follow 0 "no better than guessing: "
[ "$(wc -l <followed.txt)" -eq 120 ] || fail "predict answers for $(wc -l <followed.txt) of 120 images"
"$recollect" eval good.safetensors both --json --strict >out.txt 2>err.txt
[ $? -eq 3 ] || fail "eval --json --strict: $(cat err.txt)"
says '{"verdict":"good","verdict_text":"good","warnings":[{"code":"unknown_classes",'
says '"classes":[],"command":"recollect learn good.safetensors FOLDER --out NEW.safetensors"}],"images":120,'
says '"unknown_classes":["frame-plain-red","halfdisc-plain-white"]'
grep -q '"accuracy":[0-9.]*,"accuracy_interval":\[[0-9.]*,[0-9.]*\],"top5":[0-9.]*,"top5_interval":\[' out.txt || fail "eval --json: $(cat out.txt)"
grep -q '"task_accuracy":\[[0-9.]*\],"task_accuracy_interval":\[\[[0-9.]*,[0-9.]*\]\],' out.txt || fail "eval --json: $(cat out.txt)"
"$recollect" eval good.safetensors both --csv --strict >out.txt 2>err.txt
[ $? -eq 3 ] || fail "eval --csv --strict: $(cat err.txt)"
[ "$(wc -l <out.txt)" -eq 7 ] || fail "the verdict is among the CSV: $(cat out.txt)"
grep -qF "warning: 40 images were left out" err.txt || fail "eval --csv does not warn: $(cat err.txt)"
mkdir part && cp -r old/bar* old/disc* part/
expect 0 "good" eval good.safetensors part --strict
says "(40 images, 2 of 6 classes; 95 % interval: "
grep -q "^warning" out.txt && fail "eval warns of classes that nobody asked for: $(cat out.txt)"
echo "no picture" >part/"$(ls part | head -n 1)"/cut.png
expect 3 "good (1 warning below)" eval good.safetensors part --strict --skip-broken
says "warning: 1 image could not be read and was left out"
[ "$(suggested "1 image could not be read")" = "recollect eval good.safetensors part" ] || fail "suggested: $(cat out.txt)"

# Half of the images of each class lie in the folder of the next one: weak. The file does not say how long the model was
# trained, so no number of epochs is suggested.
mkdir mixed
mapfile -t classes < <(ls old)
for i in "${!classes[@]}"; do
    next=${classes[$(((i + 1) % ${#classes[@]}))]}
    mkdir -p "mixed/${classes[i]}" "mixed/$next"
    find "old/${classes[i]}" -type f | sort | while read -r file; do
        odd=$((1 - ${odd:-0}))
        target=${classes[i]}
        [ $odd -eq 0 ] || target=$next
        cp "$file" "mixed/$target/${classes[i]}-$(basename "$file")"
    done
done
"$recollect" eval good.safetensors mixed >out.txt 2>err.txt || fail "$(cat err.txt)"
grep -q "^Verdict: weak (" out.txt || fail "half of the labels are wrong, and it is not weak: $(cat out.txt)"
grep -A 1 "^warning: the accuracy is " out.txt | grep -q ": recollect learn FOLDER --out NEW.safetensors$" ||
    fail "suggested for a weak model: $(cat out.txt)"

# Of many classes those are listed that there are images of.
"$make_images" procedural:22 train 0 22 2 png many
"$recollect" learn many --out many.safetensors "${tiny[@]}" "${short[@]}" >out.txt 2>err.txt || fail "$(cat err.txt)"
mkdir seen
mapfile -t classes < <(ls many)
cp -r "many/${classes[3]}" "many/${classes[20]}" seen/
rm "$(find "seen/${classes[20]}" -type f | sort | head -n 1)"
"$recollect" eval many.safetensors seen >out.txt 2>err.txt || fail "$(cat err.txt)"
[ "$(sed -n '/^classes:/,/^most confused/p' out.txt | wc -l)" -eq 5 ] || fail "classes without images are listed: $(cat out.txt)"
grep -qE "^    4  ${classes[3]} .*\(2 images; " out.txt && grep -qE "^   21  ${classes[20]} .*\(1 image; " out.txt ||
    fail "the classes that have images are not listed: $(cat out.txt)"
says "  and 20 classes without images"

# ---- what is said about it -------------------------------------------------------------------------------------------
"$recollect" manual | grep -F "3: done, but there are warnings, and \\-\\-strict was given" >/dev/null || fail "the manual has no exit code 3"

[ $failures -eq 0 ] || { echo "$failures failure(s)"; exit 1; }
