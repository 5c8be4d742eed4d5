#!/usr/bin/env bash
# A published classifier becomes a model: it is recognised, described, predicts, is scored, dreams and learns more; and
# everything that must be refused, each with a message that says what is wrong.
#
# usage: test_import.sh RECOLLECT MAKE_IMAGES MAKE_WEIGHTS
set -uo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
recollect=$(realpath "$1") make_images=$(realpath "$2") make_weights=$(realpath "$3")
work=$(mktemp -d "${TMPDIR:-/tmp}/recollect-import-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
. "$here/expect.sh"

"$make_images" procedural:10 train 0 2 20 png old
"$make_images" procedural:10 train 4 6 20 png new
"$make_weights" cifar-resnet20 2 archive net.pth
"$make_weights" cifar-resnet20 2 old net.th
"$make_weights" cifar-resnet20 2 safetensors net.safetensors
ls old >labels.txt

# ---- the three kinds of files, and what is said ---------------------------------------------------------------------------
expect 0 "saved as one.safetensors: cifar-resnet20, 2 classes, 269202 parameters" import net.pth --classes labels.txt \
    --out one.safetensors
grep -q "is of cifar-resnet20 and knows 2 classes" err.txt || fail "the net was not named"
expect 0 "saved as two.safetensors" import net.th --as cifar-resnet20 --classes labels.txt --out two.safetensors
expect 0 "saved as three.safetensors" import net.safetensors --classes labels.txt --out three.safetensors
cmp -s one.safetensors two.safetensors || fail "the old kind of file gives another model"
cmp -s one.safetensors three.safetensors || fail "safetensors give another model"
expect 0 "--classes takes a file with a name a line" import net.pth --out numbered.safetensors
expect 0 "class-0001" info numbered.safetensors

# ---- the model is one like others ------------------------------------------------------------------------------------------
expect 0 "cifar-resnet20" info one.safetensors
grep -q "stores no statistics of classes that were imported" out.txt || fail "info does not say that statistics are missing"
grep -q "no images of the classes that the net came with were held out" out.txt || fail "info does not say why strangers cannot be told"
expect 0 "its net came from elsewhere" predict one.safetensors old
grep -q "%" out.txt || fail "nothing was predicted"
expect 0 "accuracy" eval one.safetensors old
expect 0 "" dream one.safetensors --steps 2 --per-class 1 --out dreams --threads 1
expect 0 "it was imported" learn one.safetensors new --out more.safetensors --threads 1 --set epochs=2 \
    --set refine_epochs=1 --set inversion_steps=2
expect 0 "learnt in 2 tasks" info more.safetensors
grep -q "no images of the classes that the net came with were held out" out.txt || fail "info after a lesson: $(cat out.txt)"

# ---- the lesson again, longer: with --epochs alone the whole net would learn -------------------------------------------------
mkdir -p swapped/val && "$make_images" procedural:10 train 4 6 2 png swapped/train
"$make_images" procedural:10 test 4 6 20 png right
mapfile -t classes < <(ls right)
mv "right/${classes[0]}" "swapped/val/${classes[1]}" && mv "right/${classes[1]}" "swapped/val/${classes[0]}"
quick=(learn one.safetensors swapped --out more.safetensors --force --threads 1 --set batch=4 --set min_steps=1 --set inversion_steps=1)
again="train twice as long: recollect learn one.safetensors swapped --out more.safetensors --force --adapt top"
expect 0 "chosen: the last stage of the net learns" "${quick[@]}"
grep -qF "$again --set batch=4 --set min_steps=1 --set inversion_steps=1 --threads 1 --epochs " out.txt || fail "the longer lesson: $(cat out.txt)"
expect 0 "$again --set batch=4 --set min_steps=1 --set inversion_steps=1 --threads 1 --epochs 2" "${quick[@]}" --adapt top --epochs 1

# ---- what is refused, and leaves nothing -----------------------------------------------------------------------------------
expect 2 "which file of weights?" import --out x.safetensors
expect 2 "where should the model go?" import net.pth
expect 2 "where should the model go?" import net.pth --out ""
expect 2 "unexpected argument" import net.pth other.pth --out x.safetensors
expect 2 "did you mean 'cifar-resnet20'?" import net.pth --as cifar-resnet21 --out x.safetensors
expect 1 "is not of cifar-resnet32; 60 tensors are missing: " import net.pth --as cifar-resnet32 --out x.safetensors
for as in auto cifar-resnet20; do # cifar-resnet20 it is, and yet
    expect 1 "'one.safetensors' is a model of recollect already" import one.safetensors --as $as --out x.safetensors
done
expect 1 "is there already" import net.pth --out one.safetensors
expect 1 "which is never written" import net.safetensors --out net.safetensors --force
expect 1 "absent.pth" import absent.pth --out x.safetensors
expect 1 "nor does it begin as a file of torch.save" import labels.txt --out x.safetensors
echo one >short.txt
expect 1 "'short.txt' has 1 name, one a line, but 'net.pth' has 2 classes" import net.pth --classes short.txt --out x.safetensors
head -c 5000 net.pth >cut.pth
expect 1 "is damaged or cut off" import cut.pth --out x.safetensors
head -c 5000 net.th >cut.th
expect 1 "cut.th" import cut.th --out x.safetensors
printf '\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}X\x0d\0\0\0little_endian\x88s.\x80\x02cos\nsystem\n(X\x0a\0\0\0touch evil\x85R.' >evil.pth
expect 1 "asks for os.system, which recollect does not call" import evil.pth --out x.safetensors
[ -e evil ] && fail "a pickle was executed"
expect 1 "no memory for" import net.pth --out x.safetensors --max-memory 1M
[ -e x.safetensors ] && fail "a refused import left a file"
expect 0 "saved as one.safetensors" import net.pth --out one.safetensors --force
[ $failures -eq 0 ]
