#!/usr/bin/env bash
# predict and eval with --sandbox say what they say without it, for pictures of every kind, with one thread and several;
# and a process in there can neither connect, nor begin another, nor make, change or remove a file, nor run new code.
#
# usage: test_sandbox.sh PROGRAM MAKE_IMAGES ESCAPE_LIBRARY
fixtures=$(cd "$(dirname "$0")/../fixtures/pictures" && pwd)
. "$(dirname "$0")/common.sh"
escape=$3
"$program" predict --sandbox no-such-model no-such-picture 2>message || true
if ! grep -q 'no-such-model' message; then
    if [ -n "${RECOLLECT_TEST_NO_SKIP:-}" ] && grep -q '^Seccomp_filters:' /proc/self/status; then
        fail "the kernel filters calls, but there is no sandbox: $(<message)"
    fi
    echo "this system has no sandbox"
    exit 77
fi
mkdir pictures some
cp "$fixtures"/*.* pictures
for class in photos/*; do mkdir "some/${class##*/}" && find "$class" -name '*0[1-5].ppm' -exec cp {} "some/${class##*/}" \;; done
"$program" learn photos --set net=resnet-small --set net_width=4 --epochs 1 --set min_steps=1 --size 16 --threads 1 \
    --out model.safetensors >/dev/null 2>message || fail "a lesson: $(<message)"
chmod 644 model.safetensors

# alike WHAT COMMAND...: the same code, the same output and the same messages with and without.
alike() {
    local what=$1 plain=0 boxed=0
    shift
    "$program" "$@" >plain.out 2>plain.err || plain=$?
    "$program" "$@" --sandbox >boxed.out 2>boxed.err || boxed=$?
    [ $plain -eq $boxed ] || fail "$what: code $boxed instead of $plain: $(<boxed.err)"
    cmp -s plain.out boxed.out || fail "$what: another output: $(diff plain.out boxed.out)"
    cmp -s plain.err boxed.err || fail "$what: other messages: $(diff plain.err boxed.err)"
}
for threads in 1 4; do
    alike "predict" predict model.safetensors pictures some --threads $threads
    alike "eval" eval model.safetensors photos --threads $threads
done
alike "predict to a table" predict model.safetensors pictures --json --threads 1
alike "a model that is none" predict photos pictures
[ -s plain.err ] || fail "a folder was taken for a model"
code=0
"$program" predict --sandbox --backend cuda model.safetensors pictures >/dev/null 2>message || code=$?
[ $code -eq 2 ] && grep -q 'computes on the CPU' message || fail "a GPU in the sandbox: code $code: $(<message)"

tries() { env LD_PRELOAD="$escape" RECOLLECT_ESCAPE="$work/made" "$program" predict "$@" model.safetensors pictures --threads 1; }
tries --sandbox >/dev/null 2>message || true
grep -qE '^tried 17, held 17$' message || fail "not all was held: $(<message)"
[ ! -e made ] && [ ! -e made-2 ] && [ -e model.safetensors ] || fail "a file was made, renamed or removed"
# The same attempts succeed without it, so they are attempts.
cp model.safetensors kept.safetensors
tries >/dev/null 2>message || true
[ "$(grep -c '^escaped: ' message)" -ge 12 ] || fail "without the sandbox only these succeed: $(<message)"
echo "$name: passed in $SECONDS s"
