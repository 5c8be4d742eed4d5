#!/usr/bin/env bash
# A full disk, a read-only folder, a data file that vanishes: a message that names the file and says what to do, code 1,
# the last good checkpoint intact, and the same bits once the run goes on. Where file systems can be mounted a full one
# is full and a read-only one read-only; a preloaded library that lets operations on files fail serves everywhere.
#
# usage: test_disk.sh PROGRAM MAKE_IMAGES FAULT_LIBRARY [SEED]
. "$(dirname "$0")/common.sh"
fault=$3 seed=${4:-$$}
echo "$name: seed $seed"
RANDOM=$seed
run --out whole >/dev/null 2>&1

# refused WHAT PATTERN COMMAND...: fails with code 1 and a message that holds the pattern.
refused() {
    local what=$1 pattern=$2 code=0
    shift 2
    "$@" >/dev/null 2>message || code=$?
    [ $code -eq 1 ] || fail "$what: code $code, expected 1: $(cat message)"
    grep -qE -- "$pattern" message || fail "$what: the message lacks '$pattern': $(cat message)"
}

# ---- a full disk, at numbered operations ------------------------------------------------------------------------------
faulty() { # FAULT ARGUMENT...
    env LD_PRELOAD="$fault" RECOLLECT_FAULT_UNDER=/disk RECOLLECT_FAULT="$1" RECOLLECT_FAULT_LOG="$work/log" \
        "$program" run small.yaml --method cwd --threads 1 --checkpoint 0 --out "$work/disk/run" "${@:2}"
}
mkdir disk
faulty count:0 >/dev/null 2>&1
grep -n 'write .*checkpoint' log | cut -d: -f1 >checkpoints
all=$(wc -l <log)
last_write() { grep -n "write .*/$1" log | tail -n 1 | cut -d: -f1; }
numbers=(1 "$(sed -n 2p checkpoints)" "$(tail -n 1 checkpoints)")
for file in config.yaml cwd/results.json cwd/results.txt cwd/task-2.safetensors; do numbers+=("$(last_write $file)"); done
for ((i = 0; i < 4; i++)); do numbers+=($((2 + RANDOM * (all - 2) / 32768))); done
for number in "${numbers[@]}"; do
    rm -rf disk/run
    refused "no space from operation $number on" \
        "'[^']*/disk/run[^']*'.*: No space left on device.*once there is room.*--resume goes on" faulty "full:$number"
    [ "$(find disk -name '*.tmp-*' | wc -l)" -eq 0 ] || fail "half a file was left: $(find disk -name '*.tmp-*')"
    run --out disk/run --resume >/dev/null 2>message || fail "after a full disk at operation $number: $(cat message)"
    same disk/run whole "after a full disk at operation $number"
done
echo "a full disk at operations ${numbers[*]} of $all"

# ---- a real one -------------------------------------------------------------------------------------------------------
# Room for the models, not for the checkpoint of the second task beside them.
cat >full.sh <<'INNER'
mount -t tmpfs -o size=$3k tmpfs mounted || exit 99
code=0
"$1" run small.yaml --method cwd --threads 1 --checkpoint 0 --out mounted/run || code=$?
[ $code -eq 1 ] || { echo "code $code" >&2; exit 98; }
cp -r mounted/run "$2"
INNER
mkdir mounted
code=99
if unshare -rm true 2>/dev/null; then
    code=0
    size=$(($(du -ks whole | cut -f1) - 40))
    unshare -rm bash full.sh "$program" copied $size >/dev/null 2>message || code=$?
fi
if [ $code -eq 99 ]; then
    echo "(file systems cannot be mounted here: the full disk above has to do)"
else
    [ $code -eq 0 ] || fail "a full file system: $(cat message)"
    grep -q 'No space left on device' message || fail "a full file system: $(cat message)"
    run --out copied --resume >/dev/null 2>message || fail "after a full file system: $(cat message)"
    same copied whole "after a full file system of $size kB"
    echo "a full file system of $size kB"
fi

# ---- a read-only folder -----------------------------------------------------------------------------------------------
rm -rf disk/run
refused "a read-only folder" "'[^']*/disk/run': Read-only file system.*--resume goes on" faulty readonly:1
rm -rf disk/run
cut=$(sed -n $(($(wc -l <checkpoints) / 2))p checkpoints)
refused "read-only in the midst" "'[^']*/disk/run[^']*': Read-only file system.*--resume goes on" faulty "readonly:$cut"
checkpoint=$(find disk/run -name checkpoint.safetensors)
[ -n "$checkpoint" ] || fail "read-only in the midst: no checkpoint is left"
before=$(md5sum <"$checkpoint")
refused "resumed, still read-only" "Read-only file system" faulty readonly:1 --resume
[ "$(md5sum <"$checkpoint")" = "$before" ] || fail "the checkpoint has changed"
run --out disk/run --resume >/dev/null 2>message || fail "after a read-only folder: $(cat message)"
same disk/run whole "after a read-only folder"
if [ "$(id -u)" -ne 0 ]; then
    mkdir locked && chmod a-w locked
    refused "a folder without permission" "locked.*Permission denied" run --out locked/run
fi

# ---- data that vanishes -----------------------------------------------------------------------------------------------
victim=$(find photos -name '*.ppm' | sort | sed -n 50p)
files() {
    env LD_PRELOAD="$fault" RECOLLECT_FAULT_UNDER=/photos/ RECOLLECT_FAULT=vanish:60 "$program" run small.yaml \
        --method cwd --threads 1 "$@"
}
refused "a file that vanishes while it is read" 'photos/[^ ]*\.ppm.*No such file' files --out lost
[ ! -e lost/run.json ] || fail "a run began without its data"
life --out lost --checkpoint 0 >/dev/null 2>&1 &
pid=$!
for ((i = 0; i < 6000; i++)); do [ -s lost/first-task/checkpoint.safetensors ] && break; sleep 0.01; done
kill -9 $pid
wait $pid 2>/dev/null || true
where=$(position lost)
mv photos elsewhere
refused "no data any more" "photos.*The run in lost is as it was" run --out lost --resume
run --data elsewhere --out lost --resume >/dev/null 2>message || fail "with the data elsewhere: $(cat message)"
mv elsewhere photos
same lost whole "after the data was away"
echo "the data was away at$where"

rm -rf lost
run --out lost --stop-after 1 >/dev/null 2>&1
mv "$victim" kept
refused "one image less" "the data is not what the run in lost began with" run --out lost --resume
mv kept "$victim"
refused "another seed" "the run in lost has seed '1', but '2' is asked for" run --out lost --resume --seed 2
run --out lost --resume >/dev/null 2>message || fail "with all images again: $(cat message)"
same lost whole "after an image was away"

# ---- names that are not UTF-8, as old archives have them --------------------------------------------------------------
latin=$'gr\xfc\xdf'
mv photos "$latin"
run --data "$latin" --out "out-$latin" >/dev/null 2>message || fail "a name in Latin-1: $(cat message)"
mv "$latin" photos
same "out-$latin" whole "named in Latin-1"
echo "$name: passed in $SECONDS s"
