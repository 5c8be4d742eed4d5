#!/usr/bin/env bash
# A run on the emulated GPU: the same bits when images do not fit into device memory, and whichever lane is ahead of the
# others; and when there is no device, no memory, or the device is lost at any moment: a message that says what to do,
# code 1, what was saved before intact and named, and a resumed run that ends as if nothing had happened, or goes on on
# the CPU.
#
# usage: test_device.sh PROGRAM MAKE_IMAGES MODULE
set -euo pipefail
program=$(realpath "$1") make_images=$(realpath "$2")
RECOLLECT_CUDA_MODULE=$(realpath "$3")
export RECOLLECT_CUDA_MODULE
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "test_device: FAILED: $*" >&2; exit 1; }

"$make_images" procedural train 0 4 16 ppm photos
cat >small.yaml <<YAML
data: photos
size: 16
tasks: 2
net: resnet-small
net_width: 4
generator: generator-small
generator_width: 8
noise: 8
batch: 8
epochs: 2
refine_epochs: 1
milestone: []
inversion_steps: 2
YAML
run() { "$program" run small.yaml --backend cuda --precision fp32 --checkpoint 0 "$@"; }
same() { # FOLDER WHAT: the models of the run are those of the whole one
    for file in first-task/task-1 cwd/task-1 cwd/task-2; do
        cmp "$1/$file.safetensors" "whole/$file.safetensors" || fail "$2: another $file"
    done
}
says() { grep -qF -- "$1" message || fail "$2: the message lacks '$1': $(cat message)"; }
breaks() { # FAILURE FOLDER: a run that fails like this
    local code=0
    RECOLLECT_EMULATED_FAILURE=$1 run --out "$2" >/dev/null 2>message || code=$?
    [ $code -eq 1 ] || fail "$1: code $code, expected 1: $(cat message)"
}

RECOLLECT_EMULATED_COUNTS=counts run --out whole >/dev/null 2>log || fail "the whole run: $(cat log)"
count() { sed -n "s/^$1 //p" counts; }
bytes=$(count bytes) works=$(count works) allocations=$(count allocations)
[ "$(count left)" = 0 ] || fail "the whole run leaves $(count left) streams, events, graphs or blocks behind"

# ---- images that do not fit: 26 of a task are 20 KB -------------------------------------------------------------------
! grep -q 'stay in host memory' log || fail "images stay on the host without need"
RECOLLECT_EMULATED_LANES=first run --out streamed --device-memory $((bytes - 8000)) >/dev/null 2>log
grep -q 'images stay in host memory' log || fail "a limit of $((bytes - 8000)) of $bytes bytes moves no images"
same streamed "images in host memory"

# ---- nothing to run on ------------------------------------------------------------------------------------------------
breaks no-device none
says 'no GPU was found' no-device
says 'looking for a GPU: no card is emulated (cudaErrorNoDevice)' no-device
breaks old-driver none
says 'install a newer driver, or use backend cpu' old-driver
breaks stub none
says 'take its folder out of LD_LIBRARY_PATH' stub
breaks mps none
says 'start it anew (nvidia-cuda-mps-control)' mps
breaks busy none
says 'the GPU is taken by another program' busy
[ ! -e none ] || fail "a run that could not begin left something behind"

# ---- and on the way ---------------------------------------------------------------------------------------------------
# named FAILURE FOLDER: the message names what was saved, which is there.
named() {
    local saved
    saved=$(grep -oE '[^ ]+\.safetensors is intact: --resume goes on from there' message | cut -d' ' -f1) ||
        grep -q 'Nothing of it was saved before; --resume begins anew' message || fail "$1: $(cat message)"
    [ -z "$saved" ] || [ -s "$saved" ] || fail "$1: $saved is not there"
    [ -z "$(find "$2" -name '*.tmp*')" ] || fail "$1: half a file was left"
}
for part in 20 90; do
    breaks "lost:$((works * part / 100))" "lost$part"
    says 'cudaErrorECCUncorrectable' lost
    says "the GPU's memory is damaged: reset the GPU" lost
    named lost "lost$part"
    RECOLLECT_EMULATED_LANES=last run --out "lost$part" --resume >/dev/null 2>log ||
        fail "resumed after $part %: $(cat log)"
    same "lost$part" "resumed after the device was lost at $part %"
done
breaks "illegal:$((works * 75 / 100))" illegal
says 'the selftest of backend cuda tells which' illegal
named illegal illegal
grep -q 'safetensors is intact' message || fail "nothing was saved after three quarters: $(cat message)"
RECOLLECT_EMULATED_FAILURE=no-device run --out illegal --resume 2>message >/dev/null && fail "resumed on nothing"
says 'The run in illegal is as it was' "resumed without a device"
"$program" run small.yaml --out illegal --resume >resumed.txt 2>log || fail "resumed on the CPU: $(cat log)"
grep -q '^CwD ' resumed.txt || fail "resumed on the CPU, there are no results: $(cat resumed.txt)"
breaks "oom:$((allocations * 80 / 100))" memory
says 'MiB left on emulated on the CPU' oom
says 'use a smaller batch, or end other programs on the GPU' oom
named oom memory
run --out memory --resume >/dev/null 2>log || fail "resumed with memory: $(cat log)"
same memory "resumed after memory ran out"
