#!/usr/bin/env bash
# The user's story on folders of pictures: learn, learn more in new processes without the old pictures, predict, eval,
# dream, info; and everything that must be refused, each with a message that says what to do.
#
# usage: test_learn.sh RECOLLECT MAKE_IMAGES
set -uo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
recollect=$(realpath "$1") make_images=$(realpath "$2")
work=$(mktemp -d "${TMPDIR:-/tmp}/recollect-learn-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
. "$here/expect.sh"
# right MODEL FOLDER: percent of the pictures in FOLDER/CLASS/ that predict names CLASS
right() {
    "$recollect" predict "$1" "$2" --top 1 2>/dev/null |
        awk '{ all++; split($1, part, "/"); good += ($2 == part[2]) } END { print int(100 * good / all) }'
}
above() { # above WHAT VALUE LEAST
    echo "$1: $2 %"
    [ "$2" -ge "$3" ] || fail "$1 is $2 %, expected $3 or more"
}

tiny=(--size 16 --set net_width=8 --set generator_width=16 --set batch=32 --set inversion_steps=100
    --set min_steps=150 --epochs 16 --threads 1)
"$make_images" procedural:10 train 0 6 32 png first
"$make_images" procedural:10 train 6 8 32 jpg second
"$make_images" procedural:10 train 8 9 20 ppm third
"$make_images" procedural:10 test 0 6 10 png old
"$make_images" procedural:10 test 6 9 10 png new
mkdir test && cp -r old/* new/* test/
known=$(ls first | head -n 1)

# ---- three processes; the last has a single class of 20 pictures ----------------------------------------------------
expect 0 "held-out images of the new classes" learn first --out one.safetensors "${tiny[@]}"
expect 0 "8 classes, 2 of them new" learn one.safetensors second --out two.safetensors --old-test old --threads 1
grep -q "60 images of old classes: .* before .*, .* after" out.txt || fail "--old-test is not reported"
grep -q "lie in folders within" err.txt && fail "classes of pictures count as nested: $(cat err.txt)"
cp one.safetensors before
expect 0 "9 classes, 1 of them new" learn two.safetensors third --out three.safetensors --threads 1
cmp -s before one.safetensors || fail "learn wrote its input"
above "first model on its classes" "$(right one.safetensors old)" 70
above "old classes after three processes" "$(right three.safetensors old)" 40
above "new classes after three processes" "$(right three.safetensors new)" 30
expect 0 "9 classes, 1 of them new" learn two.safetensors third --out again.safetensors --threads 2
cmp -s three.safetensors again.safetensors || fail "another number of threads gives another model"

# ---- a table in place of folders: the same images, the same model -----------------------------------------------------
{ echo "width,Label,File" && for file in second/*/*; do echo "32,$(basename "$(dirname "$file")"),\"$file\""; done; } >second.csv
expect 0 "8 classes, 2 of them new" learn one.safetensors second.csv --out table.safetensors --threads 1
cmp -s two.safetensors table.safetensors || fail "a table gives another model than folders"

# ---- what is chosen, and what was asked for ---------------------------------------------------------------------------
"$make_images" procedural:10 train 0 2 5 png few
expect 0 "steps: 1 step of training (1 epoch of 10 images), as asked" learn few --out few.safetensors --size 16 --epochs 1 \
    --set net_width=8 --set generator_width=16 --set inversion_steps=3 --set colour=0 --threads 1 --set hold_out=0
grep -q "^training, epoch 1/1: " err.txt || fail "one epoch of ten images is not one step: $(cat err.txt)"
! grep -q "chosen" err.txt || fail "what was asked for is called chosen: $(cat err.txt)"
grep -qE "from 10 images in (less than 1|[1-9][0-9]*) s$" out.txt || fail "the time it took: $(cat out.txt)"
"$make_images" procedural:10 train 6 7 5 png lone
expect 0 "accuracy on 1 held-out image of the new classes: " learn few.safetensors lone --out lone.safetensors --threads 1
expect 0 "1 image was held out, which is too few" info lone.safetensors
expect 0 "1 step of training (1 epoch of 20 images), as asked" learn few.safetensors third --out few-more.safetensors \
    --adapt all --threads 1 --set hold_out=0
expect 0 "chosen: the head alone, with rows for all 3 classes from the statistics of the 2 known ones" learn few.safetensors third \
    --out few-more.safetensors --force --threads 1 --set hold_out=0
expect 0 "chosen: 200 steps of training (200 epochs of 10 images), because a net needs that many steps" learn few \
    --out few-more.safetensors --force --set min_steps=200 --set net_width=4 --threads 1 --set hold_out=0
grep -qE "chosen: 32 x 32 pixels for 10 images of ([0-9]+) x \1, .*; --size takes another" err.txt ||
    fail "the size is not said: $(cat err.txt)"
grep -q "chosen: training changes brightness, contrast and saturation by up to 30 %" err.txt ||
    fail "the change of colours is not said: $(cat err.txt)"
rm few*.safetensors

# ---- what is refused ------------------------------------------------------------------------------------------------
mkdir mixed && cp -r third/* mixed/ && cp -r "first/$known" mixed/
expect 1 "already knows $known" learn two.safetensors mixed --out x
expect 1 "nothing new to learn" learn two.safetensors second --out x --merge
expect 1 "nothing new to learn: the model already knows" learn two.safetensors second --out x
grep -q -- --merge err.txt && fail "--merge is offered where there is nothing new: $(cat err.txt)"
expect 1 "2 classes or more" learn third --out x "${tiny[@]}"
expect 1 "there already" learn two.safetensors third --out one.safetensors
cmp -s before one.safetensors || fail "a file was replaced without --force"
expect 1 "never written" learn one.safetensors third --out one.safetensors --force
expect 1 "is a folder" learn two.safetensors third --out first
expect 1 "make the folder first" learn two.safetensors third --out nowhere/x
expect 1 "keeps it" learn two.safetensors third --out x --net resnet32
expect 1 "cannot be set" learn two.safetensors third --out x --size 32
expect 2 "did you mean 'epochs'" learn first --out x --set epoch=3
expect 2 "sets nothing" learn first --out x --set epochs
expect 2 "'order' is a setting of experiments ('recollect run')" learn first --out x --set order=1
expect 2 "--epochs and --set epochs: which one?" learn first --out x --set batch=32 --set epochs=3 --epochs 4
expect 2 "--checkpoint and --set checkpoint_seconds: which one?" learn first --out x --checkpoint 9 --set checkpoint_seconds=8
expect 2 "there is no method 'cwdd'" learn first --out x --method cwdd
expect 2 "'joint' needs the images of old classes, which only experiments have (a new model that learns all" learn two.safetensors third --out x --method joint
expect 1 "no data at" learn nowhere --out x
expect 1 "No such" learn nowhere first --out x
expect 1 "the model comes first" learn first two.safetensors --out x
expect 2 "is a model; which folder" learn two.safetensors --out x
expect 2 "--out FILE" learn first
expect 2 "--out FILE" learn first --out ""
expect 2 "from which folder" learn --out x
expect 2 "there is no preset 'lern'" learn first --out x --preset lern
expect 2 "which model shall learn?" learn first --out x --old-test old
expect 2 "unexpected argument 'c': learn takes one folder" learn a b c --out x
expect 2 "which images" predict one.safetensors
expect 2 "which model" eval
expect 2 "of which model" dream

# ---- folders that are none, and broken pictures ---------------------------------------------------------------------
mkdir -p empty text/cat flat
echo hello >text/cat/note.txt
cp "first/$known"/* flat/
picture=$(find old -type f | sort | head -n 1)
expect 1 "'empty' is empty" learn empty --out x
expect 1 "holds 1 folder, but no picture in it" learn text --out x
expect 1 "each class needs a folder of its own" learn flat --out x
expect 1 "each class needs a folder of its own" eval one.safetensors flat
expect 1 "is one picture" learn "$picture" --out x
# Classes that lie one folder deeper, as in what an archive was unpacked to.
mkdir -p outer/photos parts/North parts/South && cp -r first/* outer/photos/ && cp -r first/* parts/South/ && cp -r old/* parts/North/
expect 1 "there is only 'photos'; if the folders in it are the classes, learn from 'outer/photos'" learn outer --out x
deeper="warning: all pictures of 'parts/' lie in folders within its classes; if these folders are the classes, learn from 'parts/North', or call the parts train and val"
expect 0 "$deeper" learn one.safetensors parts/ --out deeper.safetensors --threads 1
cp "$picture" parts/South/
expect 0 "8 classes, 2 of them new" learn one.safetensors parts/ --out deeper.safetensors --force --threads 1
grep -q "lie in folders within" err.txt && fail "a class with a picture of its own counts as nested: $(cat err.txt)"
# Parts of a set are known by other names, too.
mkdir named && cp -r second named/Training && cp -r second named/Validation
expect 0 "64 training and 64 test images" learn one.safetensors named --out named.safetensors --threads 1
mkdir -p bare/class && for file in third/*/*.ppm; do cp "$file" "bare/class/$(basename "$file" .ppm)"; done
expect 0 "7 classes, 1 of them new" learn one.safetensors bare --out deeper.safetensors --force --threads 1
grep -q "lie in folders within" err.txt && fail "pictures without an ending count as nested: $(cat err.txt)"
{ printf '%s 0\n' "first/$known"/* && printf '%s 1\n' third/*/*; } >pictures.txt # a data set that is a file
expect 0 "2 classes, 2 of them new" learn pictures.txt --out deeper.safetensors --force "${tiny[@]}" --epochs 1 --set min_steps=1
cp -r third damaged
victim=$(find damaged -type f | sort | head -n 1)
head -c 100 "$victim" >cut && mv cut "$victim"
expect 1 "$victim" learn two.safetensors damaged --out x
expect 1 "$victim" predict one.safetensors "$victim" "$picture" nowhere.png
grep -qF "$picture: " out.txt || fail "a broken picture keeps the others from being predicted"
grep -qF "nowhere.png" err.txt || fail "a missing picture is not named"
[ ! -e x ] || fail "a refused lesson left a file"
expect 0 "1 image could not be read" learn two.safetensors damaged --out x --skip-broken --epochs 2 --set min_steps=1 \
    --set inversion_steps=2
mkdir -p single/cat single/dog && cp "$picture" single/cat/ && cp "$(find old -type f | sort | tail -n 1)" single/dog/
expect 0 "no image was held out" learn single --out y "${tiny[@]}" --set min_steps=2

# ---- merging, a full disk, interrupts -------------------------------------------------------------------------------
expect 0 "images of 1 known class" learn two.safetensors mixed --out merged.safetensors --merge --epochs 2 \
    --set min_steps=1 --set inversion_steps=2
expect 0 '{"file":"merged.safetensors","method":"cwd+","classes":9,"new_classes":["' learn two.safetensors mixed \
    --out merged.safetensors --force --merge --epochs 2 --set min_steps=1 --set inversion_steps=2 --json
[ "$(wc -l <out.txt)" -eq 1 ] || fail "learn --json prints more than a line: $(cat out.txt)"
grep -q '"merged_classes":1,.*"old_images":0,"old_accuracy_before":null,.*"stage_seconds":{"inversion":[0-9]' out.txt ||
    fail "learn --json: $(cat out.txt)"
until_learning() { # waits for a lesson that writes to err.txt to begin
    for _ in $(seq 100); do
        sleep 0.1
        grep -q "new classes" err.txt && break
    done
}
"$recollect" learn first --out stopped.safetensors "${tiny[@]}" --set min_steps=50000 >out.txt 2>err.txt &
pid=$!
until_learning
sleep 0.3
kill -INT $pid
wait $pid
code=$?
[ $code -eq 130 ] || fail "an interrupted lesson exits with $code, expected 130"
grep -q "'stopped.safetensors.part' holds training, step [0-9]*, and --resume goes on from there" err.txt ||
    fail "an interrupted lesson does not say what is kept: $(tail -n 3 err.txt)"
[ "$(find . -name 'stopped*')" = ./stopped.safetensors.part ] || fail "an interrupted lesson left $(find . -name 'stopped*')"

# Another process makes the file meanwhile: it stays, and what was learnt is saved beside it.
"$recollect" learn first --out raced.safetensors "${tiny[@]}" >out.txt 2>err.txt &
pid=$!
until_learning
echo "somebody else's" >raced.safetensors
wait $pid
code=$?
[ $code -eq 1 ] || fail "the file is there by the end: exit code $code, expected 1"
grep -q "'raced.safetensors' is there already; choose another name, or replace it with --force" err.txt || fail "the file is there by the end: $(cat err.txt)"
[ "$(cat raced.safetensors)" = "somebody else's" ] || fail "a file that came meanwhile was replaced"
expect 0 "6, learnt in 1 task" info recollect-*.safetensors
# The second signal ends it at once, whichever it is. (It may have stopped by then: so it is tried again.)
for _ in 1 2 3 4 5; do
    rm -f stopped.safetensors.part
    "$recollect" learn first --out stopped.safetensors "${tiny[@]}" --set min_steps=50000 >out.txt 2>err.txt &
    pid=$!
    until_learning
    kill -INT $pid
    sleep 0.02
    kill -TERM $pid 2>/dev/null
    wait $pid
    code=$?
    [ $code -ne 143 ] || break
done
[ $code -eq 143 ] || fail "SIGTERM after SIGINT: exit code $code, expected 143"

# ---- models without class statistics --------------------------------------------------------------------------------
expect 0 "6 classes" learn first --out plain.safetensors "${tiny[@]}" --method finetune --epochs 2 --set min_steps=20
grep -qF "warning: inversion_steps changes nothing here; only these read it: deepinversion, abd" err.txt ||
    fail "a setting that the method does not read: $(cat err.txt)"
expect 0 "it has not measured that" predict plain.safetensors "$picture"
expect 0 '"stranger":null,"none_of_these":false}' predict plain.safetensors "$picture" --json
grep -qE '"unfamiliarity":[0-9]' out.txt || fail "predict of a model without class statistics has no unfamiliarity"
expect 1 "it has not measured that" predict plain.safetensors "$picture" --reject 5
expect 0 "has no class statistics (Fine-tuning" learn plain.safetensors second --out plain2.safetensors --method cwd \
    --epochs 2 --set min_steps=5 --set inversion_steps=10
expect 0 "note: the model cannot tell" predict plain2.safetensors "$picture"

# ---- strangers: 60 images are held out ------------------------------------------------------------------------------
mkdir rated && cp -r first rated/train && cp -r old rated/val
expect 0 "6 classes" learn rated --out rated.safetensors "${tiny[@]}" --epochs 2 --set min_steps=20
expect 0 "strangers      measured on 60 held-out images" info rated.safetensors
expect 0 '"calibrated_images":60' info rated.safetensors --json
expect 0 " %; stranger: " predict rated.safetensors old
! grep -q "none of these" out.txt || fail "predict answers 'none of these' without --reject"
! grep -q "cannot tell" err.txt || fail "predict of a model that has measured it says that it cannot tell"
below=$(grep -c "stranger: [0-4]\.[0-9] %" out.txt) # of the images that it was measured on, 2/61 and 3/61 are
[ "$below" -eq 2 ] || fail "$below of 60 held-out images are below 5 %, expected 2"
expect 0 ": none of these (" predict rated.safetensors old --reject 5
[ "$(grep -c "none of these" out.txt)" -eq 2 ] || fail "--reject 5 is not what is below 5 %"
expect 0 '"none_of_these":true' predict rated.safetensors old --reject 5 --json
expect 0 ',true,' predict rated.safetensors old --reject 5 --csv
expect 2 "reject" predict rated.safetensors old --reject 0
expect 2 "reject" predict rated.safetensors old --reject 101
expect 0 "18 images were held out" info one.safetensors

# ---- predict --------------------------------------------------------------------------------------------------------
expect 0 "-: " predict one.safetensors - <"$picture"
find old -type f | sort >list.txt
expect 0 "$picture: " predict one.safetensors --list - --top 2 <list.txt
[ "$(wc -l <out.txt)" -eq "$(wc -l <list.txt)" ] || fail "predict --list leaves pictures out"
cut -d: -f1 out.txt | cmp -s - list.txt || fail "predict does not keep the order"
expect 0 '"unfamiliarity":' predict one.safetensors "$picture" --json
grep -q '"top":\[{"class":"' out.txt || fail "predict --json has no classes"
expect 2 "--list is for '-', which reads the paths from stdin: --list - < list.txt" predict one.safetensors --list list.txt
expect 1 "cannot decode '-': no picture" predict one.safetensors - </dev/null
expect 1 "holds no picture" predict one.safetensors empty
expect 1 "No such" predict nowhere "$picture"
expect 1 "curl -s ADDRESS | recollect predict MODEL -" predict one.safetensors https://example.org/a.jpg
expect 1 "The model comes first" predict "$picture" one.safetensors
head -c 1000 one.safetensors >cut.safetensors
expect 1 "cut.safetensors" predict cut.safetensors "$picture"
header='{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"__metadata__":{"format":"pt"}}'
{ printf "\\x$(printf %x ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header" && printf '\0\0\0\0'; } >other.safetensors
expect 1 "it is not a model of recollect" predict other.safetensors "$picture"

# What cannot be read in a folder is named, and the rest of it predicted.
mkdir odd && cp "$picture" odd/a.png && ln -s nowhere odd/gone.png
deep=odd/z
for _ in $(seq 45); do deep=$deep/z; done
mkdir -p $deep && cp "$picture" $deep/
expect 1 "odd/a.png: " predict one.safetensors odd
grep -qF "cannot open 'odd/gone.png': No such file" err.txt || fail "a link that leads nowhere is not named: $(cat err.txt)"
grep -qF "nested deeper than" err.txt || fail "a folder that is too deep is not named: $(cat err.txt)"

# Long names, of characters that take two bytes: all of them are shown, none is cut in half.
long=$(printf 'ü%.0s' $(seq 120))
mapfile -t pictures < <(find old -type f | sort)
for i in 1 2 3 4 5; do mkdir -p "long/$long$i" && cp "${pictures[i * 10 + 1]}" "long/$long$i/"; done
expect 0 "5 classes" learn long --out long.safetensors "${tiny[@]}" --set min_steps=2
expect 0 ": $long" predict long.safetensors "$picture" --top 5
for i in 1 2 3 4 5; do grep -qF "$long$i " out.txt || fail "predict --top 5 leaves class $i out: $(cat out.txt)"; done
expect 0 "dreams after 2 steps" dream long.safetensors --out long-dreams --per-class 1 --steps 2 --threads 1
{ cat out.txt && ls long-dreams; } | iconv -f UTF-8 -t UTF-8 >/dev/null || fail "dream cuts a character in half"

# ---- eval -----------------------------------------------------------------------------------------------------------
expect 0 "confusion matrix" eval three.safetensors test
grep -q "^task 2 .* images, classes 7 to 8; " out.txt && grep -q "^task 3 .* images, class 9; " out.txt || fail "eval does not score tasks"
grep -q "^top-5 " out.txt || fail "eval has no top-5"
printed=$(awk '/^accuracy/ { print int($2) }' out.txt)
[ "$printed" -eq "$(right three.safetensors test)" ] || fail "eval says $printed %, predict $(right three.safetensors test) %"
expect 0 "does not know their classes" eval one.safetensors test
expect 0 '"task_accuracy":' eval three.safetensors test --json
expect 0 'true\predicted' eval three.safetensors test --csv
[ "$(wc -l <out.txt)" -eq 10 ] || fail "eval --csv has not a line for each class"
[ "$(tail -n +2 out.txt | tr ',' '\n' | awk '/^[0-9]+$/ { sum += $1 } END { print sum }')" -eq 90 ] ||
    fail "the matrix does not add up"
expect 1 "no image of a class that the model knows" eval one.safetensors new

# ---- info and dream -------------------------------------------------------------------------------------------------
expect 0 "9, learnt in 3 tasks" info three.safetensors
grep -q "no image is in the file" out.txt || fail "info does not say what is kept"
expect 0 '"tasks":[6,2,1]' info three.safetensors --json
grep -q '"images":0,"other":0' out.txt || fail "info --json does not count what is kept"
expect 1 "No such" info nowhere
dream=(dream one.safetensors --per-class 4 --steps 40 --threads 1)
expect 0 "dreams after 40 steps" "${dream[@]}" --out night
[ "$(find night -name '*.png' | wc -l)" -ge 2 ] || fail "dream leaves no pictures"
expect 0 "night/all.png" predict one.safetensors night
expect 1 "there already" "${dream[@]}" --out night
expect 1 "is a file" "${dream[@]}" --out "$picture"
cp night/all.png seen.png
expect 0 "dreams after 40 steps" "${dream[@]}" --out night --force --threads 2
cmp -s seen.png night/all.png || fail "the same seed gives other dreams"
expect 0 "dreams after 40 steps" "${dream[@]}" --out other --seed 9
cmp -s seen.png other/all.png && fail "another seed gives the same dreams"
# Real images beside the dreams: of classes that both have, whatever their size; the others are named.
quick=(dream one.safetensors --per-class 2 --steps 2 --threads 1)
expect 0 "real: to the class of the real images" "${quick[@]}" --out beside --beside old
expect 0 '"real_probabilities":[' "${quick[@]}" --out beside-json --beside old --json
[ "$(wc -l <out.txt)" -eq 1 ] || fail "dream --json prints more than a line of JSON"
cmp -s beside/all.png beside-json/all.png || fail "--json changes the sheet"
mkdir part && cp -r "first/$known" part/ && cp -r second/* part/
expect 0 "no images of classes that the model knows (5)" "${quick[@]}" --out part-dreams --beside part
grep -q "classes that the model does not know, which are not shown (2)" err.txt || fail "extra classes are not named"
expect 1 "new has no image of a class that the model knows" "${quick[@]}" --out none --beside new
expect 1 "nowhere" "${quick[@]}" --out none --beside nowhere
expect 2 "which real images?" "${quick[@]}" --out none --beside ""
[ ! -e none/all.png ] || fail "dream leaves pictures where it fails"
# The text has the shares, how sure the model is of its dreams and, with real images, of those.
rows_of() { grep -cE "^ +[0-9]+  .* [0-9]+\.[0-9] %( +[0-9]+ %){$1}  #+$" out.txt; } # with so many percentages behind the share
expect 0 "share    sure  real" "${quick[@]}" --out beside --beside old --force
[ "$(rows_of 2)" -ge 1 ] || fail "dream --beside does not say how sure the model is: $(cat out.txt)"
expect 0 "share    sure" "${quick[@]}" --out beside --force
[ "$(rows_of 1)" -ge 1 ] || fail "dream does not say how sure the model is: $(cat out.txt)"
# What does not fit into one sheet goes on in the next, which is not replaced either.
tall=("${quick[@]}" --scale 64 --out tall)
expect 0 "tall/all.png to tall/all-2.png have a row for each class" "${tall[@]}"
[ -s tall/all-2.png ] && [ ! -e tall/all-3.png ] || fail "six classes of 1024 pixels make $(ls tall/all*)"
rm tall/all.png
expect 1 "tall/all-2.png is there already" "${tall[@]}"
expect 1 "too large" "${quick[@]}" --out large --per-class 4096 --scale 64 --steps 10000000
expect 0 "dreams after 5 steps" dream plain.safetensors --out plain --per-class 1 --steps 5

[ $failures -eq 0 ] || { echo "$failures failure(s)"; exit 1; }
