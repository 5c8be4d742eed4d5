#!/usr/bin/env bash
# What becomes of results that are hard to write: calls that signals cut short, folders that cannot be synced, limits on
# the size of files, names that cannot work, links and modes. Nothing is trained in vain, and nothing that was trained is
# lost while there is a place for it.
#
# usage: test_output.sh PROGRAM MAKE_IMAGES FAULT_LIBRARY
. "$(dirname "$0")/common.sh"
fault=$3
lesson=(photos --set net=resnet-small --set net_width=16 --epochs 1 --set min_steps=1 --size 16 --threads 1)
learn() { "$program" learn "${lesson[@]}" "$@"; }
faulty() { # FAULT COMMAND...: with what it does below disk/ going wrong
    env LD_PRELOAD="$fault" RECOLLECT_FAULT_UNDER=/disk RECOLLECT_FAULT="$1" RECOLLECT_FAULT_LOG="$work/log" "${@:2}"
}
# ends CODE WHAT PATTERN COMMAND...: with that code and a message that holds the pattern.
ends() {
    local expected=$1 what=$2 pattern=$3 code=0
    shift 3
    "$@" >output 2>message || code=$?
    [ $code -eq "$expected" ] || fail "$what: code $code, expected $expected: $(cat message)"
    grep -qE -- "$pattern" message || fail "$what: the message lacks '$pattern': $(cat message)"
}
nothing_left() { # FOLDER WHAT
    [ -z "$(find "$1" -name '*.tmp-*')" ] || fail "$2: half a file is left: $(find "$1" -name '*.tmp-*')"
}
mkdir disk elsewhere
run --out whole >/dev/null 2>&1
learn --out whole.safetensors >/dev/null 2>message || fail "a lesson: $(cat message)"
limit=$(($(stat -c %s whole.safetensors) / 1024 - 20))
[ $limit -gt 110 ] || fail "the model is too small for this test: $limit kB"

# ---- calls that a signal cuts short are made again -------------------------------------------------------------------
for every in 2 3; do
    rm -rf disk/run log
    faulty signal:$every "$program" run small.yaml --method cwd --threads 1 --checkpoint 0 --out "$work/disk/run" \
        >/dev/null 2>message || fail "every $every-th call was cut short: $(cat message)"
    same disk/run whole "every $every-th call was cut short"
    awk -v every=$every '$1 % every == 0 { sub(" /.*", ""); sub("^[0-9]* ", ""); print }' log >>cut
    rm -f disk/model.safetensors
    faulty signal:$every "$program" learn "${lesson[@]}" --out "$work/disk/model.safetensors" >/dev/null 2>message ||
        fail "a lesson, every $every-th call was cut short: $(cat message)"
    cmp -s disk/model.safetensors whole.safetensors || fail "every $every-th call was cut short: another model"
done
for what in make read get write sync 'sync folder' rename close; do
    grep -qx "$what" cut || fail "no '$what' was cut short, only: $(sort -u cut)"
done
echo "$(wc -l <cut) calls cut short by signals: made again"

# ---- a folder that cannot be synced: the file is there, and that is what is said ---------------------------------------
said="'[^']*model.safetensors' is written and in its place, but its folder cannot be synced \(Input/output error\): a power"
rm -f disk/model.safetensors
ends 1 "an unsynced model" "$said" faulty unsynced:1 "$program" learn "${lesson[@]}" --out "$work/disk/model.safetensors"
cmp -s disk/model.safetensors whole.safetensors || fail "an unsynced model: it is another"
! grep -qE 'instead|cannot write' message || fail "an unsynced model: what is said is not true: $(cat message)"
grep -qF '6 classes' output || fail "an unsynced model: no results: $(cat output)"
for at in 1 300; do
    rm -rf disk/run
    ends 1 "an unsynced run" 'is written and in its place, but its folder.*--resume goes on' faulty unsynced:$at \
        "$program" run small.yaml --method cwd --threads 1 --checkpoint 0 --out "$work/disk/run"
    run --out disk/run --resume >/dev/null 2>message || fail "after an unsynced run: $(cat message)"
    same disk/run whole "after an unsynced run"
done
echo "folders that cannot be synced: said as it is"

# ---- a limit on the size of files --------------------------------------------------------------------------------------
limited() { (ulimit -f "$1" && shift && "$@"); }
ends 1 "a limit that is known to be too low" 'and this process may write files of 51 kB; raise the limit' limited 50 \
    "$program" learn no-such-folder --out limited.safetensors
export TMPDIR=$work/elsewhere
ends 1 "a limit" "cannot write 'limited.safetensors': File too large" limited $limit learn --out limited.safetensors
grep -q 'nor could the model be saved elsewhere' message || fail "a limit: not said that the model is lost: $(cat message)"
[ ! -e limited.safetensors ] && [ -z "$(ls elsewhere)" ] || fail "a limit: half a model is there"
nothing_left . "a limit"
ends 1 "a limited run" "File too large.*--resume goes on" limited 16 "$program" run small.yaml --method cwd --threads 1 \
    --out limited
nothing_left limited "a limited run"
run --out limited --resume >/dev/null 2>message || fail "after a limit: $(cat message)"
same limited whole "after a limit"
code=0
limited 1 "$program" completion bash >printed 2>message || code=$?
[ $code -eq 1 ] && grep -q 'results could not be written' message || fail "a limit on what is printed: code $code"
echo "limits on the size of files: code 1 and a message"

# ---- no room where it should go: another place -------------------------------------------------------------------------
ends 1 "no room" "No space left on device" faulty full:3 "$program" learn "${lesson[@]}" --out "$work/disk/full.safetensors"
saved=$(sed -n "s/.*the model was saved as '\(.*\)' instead.*/\1/p" message)
[[ $saved == "$work"/elsewhere/* ]] && cmp -s "$saved" whole.safetensors || fail "no room: the model is lost: $(cat message)"
[ ! -e disk/full.safetensors ] || fail "no room: something is there"
unset TMPDIR
echo "no room: the model is kept elsewhere"

# ---- names that cannot work, before anything is read or trained --------------------------------------------------------
long=$(printf '%0300d' 0)
ln -s nowhere dangling.safetensors
ln -s nowhere dangling-folder
ln -s /dev/null null.safetensors
mkfifo pipe.safetensors
echo x >file
refuse() { # PATTERN NAME [OPTION]: by learn, which would find no data later
    ends 1 "learn --out $2" "$1" timeout 20 "$program" learn no-such-folder --out "${@:2}"
}
for option in "" --force; do
    refuse 'File name too long' "$long" $option
    refuse 'No such file or directory' no/such/model.safetensors $option
    refuse 'Not a directory' file/model.safetensors $option
    refuse 'a device or a pipe' null.safetensors $option
    refuse 'a device or a pipe' /dev/null $option
    refuse 'a device or a pipe' pipe.safetensors $option
    refuse 'is a folder' photos $option
done
ends 1 "a dangling link" "is there already" "$program" learn no-such-folder --out dangling.safetensors
ends 1 "a dangling link, by force" "a link that leads to no file" "$program" learn no-such-folder --force \
    --out dangling.safetensors
for out in "$long" "a/$long/b" file file/below /dev/null dangling-folder dangling-folder/below; do
    ends 1 "run --out $out" 'File name too long|is a file|leads nowhere' "$program" run small.yaml --data no-such-data \
        --out "$out"
    ends 1 "dream --out $out" 'File name too long|is a file|leads nowhere' timeout 60 "$program" dream \
        whole.safetensors --steps 10000000 --threads 1 --out "$out"
done
mkdir -p dreams/all.png
ends 1 "dream onto a folder" "all.png.*it is a folder" timeout 60 "$program" dream whole.safetensors --steps 10000000 \
    --threads 1 --out dreams --force
if [ "$(id -u)" -ne 0 ]; then
    mkdir locked && chmod a-w locked
    ends 1 "a folder without permission" 'Permission denied' "$program" learn no-such-folder --out locked/model.safetensors
fi
[ -L dangling.safetensors ] && [ ! -e nowhere ] && [ -p pipe.safetensors ] || fail "something was replaced"
nothing_left . "names that cannot work"
echo "names that cannot work: refused at once"

# ---- what is replaced keeps its mode, and links stay --------------------------------------------------------------------
echo old >elsewhere/target
chmod 640 elsewhere/target
ln -s elsewhere/target link.safetensors
ends 0 "--force" '' learn --out link.safetensors --force
[ "$(readlink link.safetensors)" = elsewhere/target ] || fail "--force: the link is gone"
cmp -s elsewhere/target whole.safetensors || fail "--force: the file behind the link is not the model"
[ "$(stat -c %a elsewhere/target)" = 640 ] || fail "--force: mode $(stat -c %a elsewhere/target), expected 640"
ends 1 "a link, without --force" 'is there already' learn --out link.safetensors
echo "--force: mode and link are kept"
echo "$name: passed in $SECONDS s"
