#!/usr/bin/env bash
# Wrong usage ends with code 2 and a message that helps, help and results go to stdout with code 0, and results that
# cannot be written end with code 1.
#
# usage: test_usage.sh PROGRAM
set -uo pipefail
program=$1
failures=0

# expect CODE STREAM TEXT ARGUMENT...: runs the program and looks for the code, and for the text on stdout or stderr;
# nothing may be on the other stream if the stream is written 'only-...'.
expect() {
    local code=$1 stream=$2 text=$3 out err found
    shift 3
    out=$("$program" "$@" 2>/tmp/recollect_stderr.$$)
    found=$?
    err=$(cat /tmp/recollect_stderr.$$)
    rm -f /tmp/recollect_stderr.$$
    local where=$out other=$err
    case $stream in *stderr) where=$err other=$out ;; esac
    if [ $found -ne "$code" ]; then
        echo "FAILED: recollect $*: code $found, expected $code"
    elif ! grep -qF -- "$text" <<<"$where"; then
        echo "FAILED: recollect $*: ${stream#only-} lacks '$text':"
        printf '%s\n' "$where"
    elif [[ $stream == only-* && -n $other ]]; then
        echo "FAILED: recollect $*: unexpected output: $other"
    else
        return
    fi
    failures=$((failures + 1))
}

expect 2 only-stderr "which command?"
expect 2 only-stderr "unknown command 'selftset'; did you mean 'selftest'?" selftset
expect 2 only-stderr "unknown command 'zzzzzzzz'" zzzzzzzz
expect 2 only-stderr "unknown option '--verison'; did you mean '--version'?" --verison
expect 2 only-stderr "unknown option '--quik'; did you mean '--quick'?" selftest --quik
expect 2 only-stderr "'recollect selftest --help' shows the usage" selftest --quik
expect 2 only-stderr "option '--seed' needs a value" selftest --seed
expect 2 only-stderr "option '--seed' is 'abc', expected a whole number" selftest --seed abc
expect 2 only-stderr "option '--seed' is '1x', expected a whole number" selftest --seed=1x
expect 2 only-stderr "option '--threads' is '-1', expected a whole number from 0" selftest --threads -1
expect 2 only-stderr "option '--threads' is '99999999999999999999', expected" selftest --threads 99999999999999999999
expect 2 only-stderr "option '--steps' is '0', expected a whole number from 1" selftest --steps 0
expect 2 only-stderr "option '--quick' takes no value" selftest --quick=1
expect 2 only-stderr "option '--backend' is 'gpu', expected cpu|reference|cuda" selftest --backend gpu
for size in much 0 -1 1.5G 2Gb '' 9999999999G; do
    expect 2 only-stderr "option '--device-memory' is '$size', expected a size such as 512M or 2G" \
        selftest --device-memory "$size"
done
expect 1 only-stderr "a limit of device memory is there on backend cuda alone" selftest --device-memory 512M --op sgd
# What is written goes to a file or a folder that has a name: elsewhere '-' means stdout.
while read -r option what arguments; do
    # shellcheck disable=SC2086
    expect 2 only-stderr "option '--$option' is '-', expected $what; '-' does not stand for stdout here (a $what of that name is './-')" \
        $arguments "--$option" -
done <<OUTPUTS
out FILE import weights
out FILE learn photos
out FOLDER dream model
onnx FILE export model
torch FILE export model
c-header FILE export model
out FOLDER run demo
out FOLDER reproduce fig-5tasks
out FILE analyze norms run
out FILE report run
out FILE pack photos
OUTPUTS
expect 2 only-stderr "option '--out' is '-', expected" pack photos --out=-
expect 2 only-stderr "unexpected argument 'now'" selftest now
expect 2 only-stderr "did you mean 'conv_forward'?" selftest --op conv_forwrd
expect 2 only-stderr "did you mean 'sgd'?" bench --op sdg
expect 2 only-stderr "no net 'mobilenet-v3' to measure; did you mean 'mobilenet-v2'?" bench --net mobilenet-v3
expect 2 only-stderr "expected train_first|train_next|inversion|train_strong|all" bench --step first
expect 2 only-stderr "did you mean 'resnet32'?" info --net resnet23
expect 2 only-stderr "there is no method 'rdcil'; did you mean 'rdfcil'?" run demo --method cwd,rdcil --out no
expect 2 only-stderr "did you mean 'cwd'?" run demo --method CwD --out no
expect 2 only-stderr "there is no method 'backpropagation'; there are finetune, joint, er" \
    run demo --method backpropagation --out no
for size in -1 100000001; do
    expect 2 only-stderr "buffer_size is $size, expected 0 to 100000000" run demo --method er --set buffer_size=$size --out no
done
expect 2 only-stderr "vae_width is 20, expected a multiple of 8" run demo --method dgr --set vae_width=20 --out no
expect 1 only-stderr "needs the module" selftest --backend cuda --op sgd
broken=$(mktemp -d)
echo "no library" >"$broken/librecollect_cuda.so"
LD_LIBRARY_PATH=$broken expect 1 only-stderr "$broken/librecollect_cuda.so" selftest --backend cuda --op sgd
rm -r "$broken"

expect 0 only-stdout "selftest" --help
expect 0 only-stdout "exit codes: 0 done, 1 failed, 2 wrong usage, 3 done, but with warnings (--strict), 130" --help
for command in run reproduce learn predict eval dream analyze bench selftest; do
    expect 0 only-stdout "--device-memory SIZE" "$command" --help
done
for command in run learn predict eval dream export info analyze pack; do
    expect 0 only-stdout "--max-memory SIZE" "$command" --help
done
for size in 0 -1 12Q 9999999999999999999999 1.5G; do
    expect 2 only-stderr "option '--max-memory' is '$size', expected a size such as 512M or 2G" info --max-memory "$size" no
done
expect 1 only-stderr "cannot allocate" run demo --data procedural --out no --max-memory 100k
# The library names settings; the program says which options set them, where the command has them.
expect 1 only-stderr "are allowed. --max-memory allows more" run demo --data procedural --out no --max-memory 100k
taken=$(mktemp -d)
touch "$taken/run.json"
expect 1 stderr "holds a run already: --resume goes on with it, another --out leaves it alone" \
    run demo --data procedural:10 --out "$taken"
rm -r "$taken"
expect 2 only-stderr "there is no setting 'merge'; docs/settings.md lists them" run demo --set merge=true --out no
for name in method out precision memory root jobs stop_after; do # what is no setting, and near to none
    expect 2 only-stderr "there is no setting '$name'; docs/settings.md lists them" run demo --set $name=1 --out no
done
for name in dataset,data num_tasks,tasks epoch_num,epochs earning_rate,learning_rate; do
    expect 2 only-stderr "there is no setting '${name%,*}'; did you mean '${name#*,}'?" run demo --set ${name%,*}=1 --out no
done
# What other tools have as options are settings, and some have other names.
for command in "learn photos" "run demo"; do
    expect 2 only-stderr "there is no setting 'lr'; did you mean 'learning_rate'?" $command --set lr=0.1 --out no
    expect 2 only-stderr "unknown option '--lr'; --set NAME=VALUE changes a setting" $command --lr 0.1 --out no
    expect 2 only-stderr "unknown option '--weight-decay'; did you mean '--set weight_decay=VALUE'?"         $command --weight-decay 0.1 --out no
done
if "$program" eval model photos --batch 8 2>&1 | grep -F -- "--set"; then
    echo "FAILED: eval has no --set, but suggests it"
    failures=$((failures + 1))
fi
expect 1 only-stderr "1024 at a time, net 'resnet-small'" run demo --data procedural:10 --out no --max-memory 100M \
    --set images_per_class=5 --set epochs=1 --set refine_epochs=0 --set batch=1024
expect 1 only-stderr "cannot read '/dev/zero': it is a device" info /dev/zero
for command in run watch reproduce report learn predict eval dream import export methods info analyze bench selftest pack completion manual; do
    expect 0 only-stdout "usage: recollect $command" "$command" --help
    expect 0 only-stdout "examples:" "$command" --help
    expect 0 only-stdout "  $command " --help
    # Lines of help fit, but for examples, which one copies; their presets are there.
    long=$("$program" "$command" --help | sed '/^examples:/,$d' | awk 'length($0) > 100')
    if [ -n "$long" ]; then
        echo "FAILED: recollect $command --help: more than 100 columns: $long"
        failures=$((failures + 1))
    fi
    while read -r preset; do
        expect 0 only-stdout "format: " run "$preset" --print-config
    done < <("$program" "$command" --help | sed -n 's/^  recollect run \([^ ]*\).*/\1/p')
done
expect 0 only-stdout "(default: cpu)" selftest --help
expect 0 only-stdout "epochs a task, refinement included. Takes 1 to 100000; the default is 200. Read by: training." manual
expect 0 only-stdout "empty: recognised by its files. Takes at most 31 characters; the default is empty. Read by: data." manual
expect 0 only-stdout "consistent dreams (DCE)" methods
expect 0 only-stdout '"data_free": false' methods --json
expect 2 only-stderr "option '--orders' is '0,,1', expected up to" run demo --orders 0,,1 --out no
expect 2 only-stderr "option '--orders' is '1,', expected up to" run demo --orders 1, --out no
expect 2 only-stderr "option '--orders' is '-1', expected up to" run demo --orders -1 --out no
expect 2 only-stderr "option '--seeds' is '', expected up to" run demo --seeds= --out no
expect 2 only-stderr "--order and --orders: which one?" run demo --order 1 --orders 1,2 --out no
expect 2 only-stderr "class_order is 'natural', so that order 1 would be the same as order 0" run demo --order 1 --out no
expect 2 only-stderr "class_order is 'natural', so that order 2 would be the same as order 0" run demo --orders 0,2 --out no
for pair in "order 1 order" "orders 1,2 order" "seed 1 seed" "tasks 2 tasks" "tasks 5,5 task_sizes" "data a data" \
    "decode stream decode"; do
    read -r option text setting <<<"$pair"
    expect 2 only-stderr "--$option and --set $setting: which one?" run cifar100-5 --$option $text --set $setting=1 --out no
done
expect 2 only-stderr "order 1 is listed twice" run demo --orders 1,1 --out no
expect 2 only-stderr "seed 7 is listed twice" run demo --seeds 7,7 --out no
expect 2 only-stderr "method cwd is listed twice" run demo --method cwd,cwd --out no
for list in '' cwd, ,cwd cwd,,rdfcil; do
    expect 2 only-stderr "there is no method ''" run demo --method "$list" --out no
done
expect 2 only-stderr "where shall the results go?" run demo --out ''
expect 2 only-stderr "where are the images?" run demo --out no
expect 1 stderr "'$program' is a file" run demo --data procedural:10 --out "$program"
expect 2 only-stderr "where shall the pictures go?" dream model --out ''
expect 2 only-stderr "unknown option '-o': options have two dashes" learn photos -o model
expect 1 only-stderr "cannot open '-o'" info -- -o
expect 0 only-stdout "loss_rkd" selftest --list
expect 0 only-stdout "backend cpu" info
expect 0 only-stdout "stage_" info --net resnet32
expect 0 only-stdout "(default: 128)" bench --help
expect 0 only-stdout "passed: 1 operations" selftest --quick --op argmax --seed 5 --threads=1
expect 0 only-stdout "1 cases" selftest --op argmax --case 3
expect 0 only-stdout "% of peak" bench --quick --op sgd --batch 2
expect 1 stderr "net 'generator' has no shape for operation 'sgd'" bench --quick --op sgd --net generator
expect 0 only-stdout '"percent_of_peak"' bench --quick --op sgd --json
expect 0 only-stdout '"min_ms"' bench --quick --step train_first --batch 2 --size 8 --json
expect 0 only-stdout 'train_first  resnet32, median' bench --quick --step train_first --batch 2 --size 8
expect 0 only-stdout 'resnet32, one of 2 at once, median' bench --quick --step train_first --batch 2 --size 8 --jobs 2
expect 0 only-stdout '"jobs": 2' bench --quick --step inversion --batch 2 --size 14 --jobs 2 --threads 1 --json
expect 1 stderr "cannot make images of 9 pixels" bench --quick --step inversion --batch 2 --size 9 --jobs 2
expect 0 only-stdout "depthwise_forward" bench --quick --op depthwise_forward --net mobilenet-v2 --size 32 --batch 1
expect 0 only-stdout '"size": 224' bench --quick --op sgd --net efficientnet-lite0 --batch 1 --json
expect 0 only-stdout '"net": "resnet18"' bench --quick --op sgd --batch 1 --size 224 --json
# Line breaks of JSON are no text from outside: they stay.
if [ "$("$program" bench --quick --op sgd --batch 1 --json | head -n 1)" != "{" ]; then
    echo "FAILED: recollect bench --json: the first line is not '{'"
    failures=$((failures + 1))
fi

if [ -e /dev/full ]; then
    for arguments in "--version" "--help" "selftest --list"; do
        # shellcheck disable=SC2086
        "$program" $arguments >/dev/full 2>/dev/null
        code=$?
        if [ $code -ne 1 ]; then
            echo "FAILED: recollect $arguments to a full disk: code $code, expected 1"
            failures=$((failures + 1))
        fi
    done
fi
[ $failures -eq 0 ] || { echo "$failures failure(s)"; exit 1; }
