#!/usr/bin/env bash
# Images that the emulated GPU has no room for, or that lie nowhere. Pictures that are decoded when they are read give the
# losses of the CPU, which decodes the same ones, and the same bits whatever the threads; a pack gives the same bits
# whether the device holds its images or batches come from the file, and takes no memory of the host for them.
#
# usage: test_stream.sh PROGRAM MAKE_IMAGES MODULE
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=$(realpath "$1") make_images=$(realpath "$2")
RECOLLECT_CUDA_MODULE=$(realpath "$3")
export RECOLLECT_CUDA_MODULE
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
. "$here/../cli/mpi.sh"
failures=0
fail() { echo "test_stream: FAILED: $*" >&2; failures=$((failures + 1)); }

"$make_images" procedural train 0 3 20 ppm photos || fail "no pictures"
tiny=(run demo --data photos --set size=14 --set resize=16 --set task_sizes=2,1 --set images_per_class=8 --method cwd
    --set epochs=2 --set refine_epochs=1 --set batch=4 --set inversion_steps=1 --set net_width=4
    --set generator_width=8 --set noise=8 --checkpoint 0)
run() { timeout 60 "$program" "${tiny[@]}" "$@" >out.txt 2>err.txt; }
gpu() { run --backend cuda --precision fp32 "$@"; }
same() { cmp "$1/task-2.safetensors" "$2/task-2.safetensors" || fail "$3"; }

# ---- pictures that are decoded when they are read ----------------------------------------------------------------------
stream=(--decode stream)
run "${stream[@]}" --threads 1 --out cpu || fail "a stream on the CPU: $(cat err.txt)"
gpu "${stream[@]}" --threads 1 --out gpu || fail "a stream on the GPU: $(cat err.txt)"
compare_losses cpu gpu 10 1e-4 || fail "losses of a stream are not those of the CPU"
gpu "${stream[@]}" --threads 3 --stop-after 1 --out again || fail "a part of it: $(cat err.txt)"
RECOLLECT_EMULATED_LANES=first gpu "${stream[@]}" --threads 2 --resume --out again || fail "the rest: $(cat err.txt)"
same gpu/cwd again/cwd "threads or lanes change a stream"
RECOLLECT_EMULATED_STREAMS=late gpu "${stream[@]}" --threads 2 --out late || fail "late streams: $(cat err.txt)"
same gpu/cwd late/cwd "a step does not wait for its images, or they do not wait for it"

# ---- a pack that does not fit ------------------------------------------------------------------------------------------
"$program" pack photos --out set.pack --size 14 --resize 16 >out.txt 2>err.txt || fail "packing: $(cat err.txt)"
# CwD+ asks for batches outside of captured steps, too; ER reads a second order, of images of this task and of its buffer.
for method in cwd+ er; do
    way=(--data set.pack --method $method --set plus_statistics=moved --set buffer_size=6
        --set images_per_class=16)
    RECOLLECT_EMULATED_COUNTS=counts gpu "${way[@]}" --out held-$method || fail "$method on a pack: $(cat err.txt)"
    ! grep -q 'images stay' err.txt || fail "$method: a pack does not fit on a device without limit: $(cat err.txt)"
    limit=$(($(sed -n 's/^bytes //p' counts) - 2000))
    RECOLLECT_EMULATED_COUNTS=counts gpu "${way[@]}" --device-memory $limit --out brought-$method ||
        fail "$method on a pack that does not fit: $(cat err.txt)"
    grep -q 'images stay in their file' err.txt || fail "$method: $limit bytes hold all images: $(cat err.txt)"
    grep -qx 'host 0' counts || fail "$method: images of a pack are kept in host memory: $(cat counts)"
    grep -qx 'left 0' counts || fail "$method: streams, events or blocks are left behind: $(cat counts)"
    same held-$method/$method brought-$method/$method "$method: batches from a file are other ones"
    RECOLLECT_EMULATED_STREAMS=late gpu "${way[@]}" --device-memory $limit --out late-$method ||
        fail "$method with late streams: $(cat err.txt)"
    same held-$method/$method late-$method/$method "$method: a step does not wait for its images, or they do not wait for it"
done
[ $failures -eq 0 ] && echo "ok"
exit $((failures > 0))
