#!/usr/bin/env bash
# Which kernels whole steps would take on cards of each architecture, by the launches that the emulation names without
# running them: every convolution and every linear layer of a step has tensor cores everywhere, also where a block has 99 KB
# of shared memory. docs/gpu.md has the table.
#
# usage: test_architectures.sh PROGRAM MODULE
set -euo pipefail
program=$(realpath "$1")
RECOLLECT_CUDA_MODULE=$(realpath "$2")
export RECOLLECT_CUDA_MODULE
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "test_architectures: FAILED: $*" >&2; exit 1; }

launches() { # ARCHITECTURE STEP SIZE [OPTION]...: to the file of that name
    RECOLLECT_EMULATED_DEVICE=$1 RECOLLECT_EMULATED_LAUNCHES=$1 "$program" bench --quick --backend cuda --step "$2" \
        --size "${@:3}" >log 2>&1 || fail "$1, $2 at $3 px: $(tail -n 1 log)"
    [ -s "$1" ] || fail "$1, $2 at $3 px: no launch"
}
count() { grep -c "$1" "$2" || true; } # PATTERN ARCHITECTURE

for architecture in sm_80 sm_86 sm_89 sm_90 sm_100 sm_120; do
    launches $architecture train_next 64
    # Those without tensor cores: tiles in fp32, the weight gradient's stages.
    ! grep -q 'tiled_arguments\|stage_arguments' $architecture ||
        fail "$architecture: convolutions without tensor cores: $(grep 'tiled_arguments\|stage_arguments' $architecture | sort | uniq -c)"
    grep -q 'gather_arguments' $architecture || fail "$architecture: no convolution on tensor cores"
done
[ "$(count '(forward_chain)' sm_90)" -gt 0 ] || fail "sm_90 takes no chain at 64 px"
[ "$(count 'walk_arguments' sm_90)" = 60 ] || fail "layers of 16 channels at 64 px that warps walk along: \
$(count 'walk_arguments' sm_90), expected 60 (10 and 10 forward, 10 back, each is captured twice)"
weights="$(count 'walk_weight_arguments' sm_90) $(count 'narrow_weight_arguments' sm_90)"
[ "$weights" = "4 10" ] || fail "weight gradients at 64 px, of 16 channels and of others: $weights, expected 4 10 (5 and 5 layers; \
9 of 32 channels, 9 of 64, the first, and two that widen; each is captured twice)"
trained="$(count '(train_chain)' sm_90) $(count '(train_back_chain)' sm_90) $(count '(train_\(back_\)\?chain)' sm_80)"
[ "$trained" = "2 2 0" ] || fail "chains of the student at 64 px, forward and back, and on sm_80: $trained, expected 2 2 0 (9 layers of 64 \
channels; each is captured twice)"
[ "$(count '(forward_chain)' sm_80)" -eq 0 ] || fail "sm_80 takes chains at 64 px: the table in docs/gpu.md is wrong"
cmp sm_86 sm_89 || fail "other kernels: the table in docs/gpu.md is wrong"
# sm_90 alone has wgmma; but for that, sm_100 has its kernels.
[ "$(count 'strip_arguments' sm_90)" -gt 0 ] || fail "sm_90 takes no wide layer with wgmma at 64 px"
for architecture in sm_80 sm_100 sm_120; do
    [ "$(count 'strip_\(weight_\)\?arguments' $architecture)" -eq 0 ] || fail "$architecture takes kernels that only sm_90 can run"
done
plain() { sed 's/.*\(strip\|wide\)\(_weight\)\?_arguments.*/wide\2/' "$1"; }
cmp <(plain sm_90) <(plain sm_100) || fail "other kernels: the table in docs/gpu.md is wrong"

launches sm_90 train_next 224 --batch 4
weights=$(count 'strip_weight_arguments' sm_90)
[ "$weights" = 32 ] || fail "weight gradients with wgmma at 224 px: $weights, expected 32 (each is captured twice)"
# The 8 values that are read finished twice are kept. Those of 8 sums are stored anyway.
values=$(count '(value_source, plain_cut' sm_90)
[ "$values" = 30 ] || fail "values that are made for wide layers at 224 px: $values, expected 30 (each is captured twice)"
pooled=$(count 'stem_pool_arguments' sm_90)
[ "$pooled" = 2 ] || fail "first layers of a teacher with their pooling at 224 px: $pooled, expected 2 (each is captured twice)"
for kernel in gram_arguments stem_train_arguments stem_back_arguments; do
    [ "$(count $kernel sm_90)" = 2 ] || fail "a student's first layer with its pooling at 224 px: $(count $kernel sm_90) $kernel, expected 2"
done
# Three of the 19 are shortcuts, which are written with the layers beside them.
data=$(count '\(strip\|wide\)_arguments<gradient_sink>' sm_90)
[ "$data" = 32 ] || fail "data gradients of wide layers at 224 px: $data, expected 32 (16 of 19 layers, each is captured twice)"

# Convolutions of the frozen net finish what they write: all but one are wide, as are the shortcuts' gradients and the last
# layer's. The generator has 10 and 6.
launches sm_90 inversion 224 --batch 4
plain="$(count '(value_source, plain_cut' sm_90) $(count '(gradient_source, plain_cut' sm_90)"
[ "$plain" = "12 20" ] || fail "finished maps of inversion at 224 px: $plain, expected 12 20 (each is captured twice)"

for architecture in sm_80 sm_86 sm_90 sm_120; do
    launches $architecture inversion 32
done
chains="$(count '(forward_chain)' sm_80) $(count '(forward_chain)' sm_86) $(count '(forward_chain)' sm_90)"
[ "$chains" = "4 2 6" ] || fail "chains of inversion at 32 px: $chains, expected 4 2 6 (each is captured twice)"
weights=$(count 'strip_weight_arguments' sm_90)
[ "$weights" = 4 ] || fail "weight gradients of a generator with wgmma at 32 px: $weights, expected 4 (each is captured twice)"
echo "test_architectures: passed"
