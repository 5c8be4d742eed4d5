#!/usr/bin/env bash
# The test of the lint: plants one offence of each kind in a small tree and looks that the lint names it, and plants
# nothing and looks that it is content.
set -euo pipefail
lint=$(cd "$(dirname "$0")/../.." && pwd)/script/lint
compiler=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fresh_tree() { # a small tree without offence
    rm -rf "$work/tree"
    mkdir -p "$work/tree/src/"{base,backend/cpu/fast,backend/cuda,nn,data,cil,check,api,cli/inside,config} "$work/tree/examples"
    printf '#include <stdio.h>\n#include "recollect/recollect.h"\n#include "base/status.h"\n' >"$work/tree/src/nn/good.c"
    printf '#include "backend/backend.h"\n' >>"$work/tree/src/nn/good.c"
    printf '#include "check/cases.h"\n#include "config/config.h"\n' >"$work/tree/src/cli/inside/good.c"
    printf '#include <stdio.h>\n#include "cli/cli.h"\n#include "recollect/recollect.h"\n' >"$work/tree/src/cli/good.c"
    printf '#include <cuda_runtime.h>\n' >"$work/tree/src/backend/cuda/good.cu"
    printf '#include <recollect/recollect.h>\n' >"$work/tree/examples/good.c"
}

expect_content() { # expect_content WHAT [LINT ARGUMENT...]
    local what=$1
    shift
    if "$lint" --root "$work/tree" "$@" >"$work/output" 2>&1; then
        echo "ok: $what"
    else
        echo "FAILED: the lint complains about $what:"
        sed 's/^/    /' "$work/output"
        failures=$((failures + 1))
    fi
}

expect_offence() { # expect_offence WHAT REGEX [LINT ARGUMENT...]
    local what=$1 regex=$2
    shift 2
    if "$lint" --root "$work/tree" "$@" >"$work/output" 2>&1; then
        echo "FAILED: the lint overlooks $what"
        failures=$((failures + 1))
    elif grep -qE "$regex" "$work/output"; then
        echo "ok: $what"
    else
        echo "FAILED: $what is not reported as '$regex':"
        sed 's/^/    /' "$work/output"
        failures=$((failures + 1))
    fi
}

plant() { # plant WHAT FILE LINE: the line is the second of the file and must be reported there
    fresh_tree
    printf '/* planted */\n%s\n' "$3" >"$work/tree/$2"
    expect_offence "$1" "^$2:2: "
}

fresh_tree
expect_content "a tree without offence"
plant "nn including data" src/nn/bad.c '#include "data/dataset.h"'
plant "nn including the inside of the cpu backend" src/nn/bad.h '#include "backend/cpu/cpu.h"'
plant "base including nn" src/base/bad.c '#  include "nn/net.h"'
plant "cpu including cuda" src/backend/cpu/fast/bad.c '#include "backend/cuda/cuda.h"'
plant "data including the backend" src/data/bad.c '#include "backend/backend.h"'
plant "cil including config" src/cil/bad.c '#include "config/config.h"'
plant "check including data" src/check/bad.c '#include "data/dataset.h"'
plant "api including cli" src/api/bad.c '#include "cli/cli.h"'
plant "api including experiment" src/api/bad.c '#include "experiment/cell.h"'
plant "cli including nn" src/cli/inside/bad.c '#include "nn/net.h"'
for command in predict eval info learn dream methods; do
    plant "$command reaching inside" src/cli/cmd_$command.c '#include "api/learn.h"'
done
plant "a command including base" src/cli/cmd_info.c '#include "base/utf8.h"'
plant "a command reaching inside through a header" src/cli/handle.h '#include "api/learn.h"'
plant "a command reaching inside through a header of the others" src/cli/cmd_info.c '#include "cli/inside/all.h"'
plant "a command reaching inside by a detour" src/cli/cmd_info.c '#include "cli/../api/learn.h"'
plant "a command reaching inside from where it is" src/cli/cmd_info.c '#include "../api/learn.h"'
plant "an example including config" examples/bad.c '#include "config/config.h"'
plant "an include that is not written from src" src/nn/bad.c '#include "net.h"'
plant "a CUDA header outside backend/cuda" src/backend/cpu/bad.c '#include <cuda_runtime.h>'
plant "an image library outside data" src/nn/bad.c '#include <png.h>'
plant "an unknown library" src/base/bad.c '#include <cblas.h>'
plant "a comparison with the name of a backend" src/nn/bad.c 'if (strcmp(name, "cuda") == 0)  return;'
plant "a comparison with the name of a backend, first" src/cli/bad.c 'x = !strcmp("cpu", name);'
plant "a comparison with the begin of such a name" src/api/bad.c 'if (strncmp(text, "cuda:", 5) == 0) x = 1;'
plant "a comparison with the name that a backend tells" src/check/bad.c 'x = strcmp(be->about.name, other) == 0;'
plant "an unfinished-work marker" src/nn/bad.c "/* TO""DO: later */"
plant "an option in a message of the library" src/nn/bad.c 'rc_fail(RC_IO, "100 %% \"full\": see", "use --merge");'
plant "an option in a text of CUDA" src/backend/cuda/bad.cu '    "or use --backend cpu"},'
plant "a tab" src/nn/bad.c "$(printf '\tint x;')"
plant "a blank at the end" src/nn/bad.c 'int x; '
plant "a brace behind a function" src/nn/bad.c 'int f(void) {'
plant "a brace behind the end of a parameter list" src/nn/bad.c '      int b) {'
plant "a long line" src/nn/bad.c "/* $(printf '%0150d' 0) */"

fresh_tree
printf '    X(WHOLE,  batch, 128, RANGE(2, 65536), "training", \\\n      "samples") \\\n' >"$work/tree/src/cil/good.h"
printf '    X(NUMBER, rate,  0.1, RANGE(0, 1), "training", \\\n      "of batch, ...") \\\n' >>"$work/tree/src/cil/good.h"
printf 'rc_settings s = rc_settings_default();\n' >"$work/tree/src/cil/good.c"
expect_content "settings with a row each"
printf '/* planted */\n    X(SWITCH, batch, true, EITHER, "data", "twice")\n' >"$work/tree/src/config/bad.h"
expect_offence "a setting with two rows" '^src/config/bad.h:2: setting batch has a row already, at src/cil/good.h:1$'
plant "a default beside the row" src/api/bad.c 'rc_settings settings = {.batch = 64};'
plant "a default in a literal" src/cil/bad.c '    return (rc_config){.tasks = 3};'

fresh_tree
printf '/* planted */\nx = strcmp(name,\n           "reference") == 0;\n' >"$work/tree/src/nn/bad.c"
expect_offence "a comparison over two lines" '^src/nn/bad.c:3: compares the name of a backend'
fresh_tree
printf 'x = strcmp(name, "cuda") == 0;\n' >"$work/tree/src/backend/good.c"
printf 'x = strcmp(name, "cpus") == 0;\ny = open("cuda");\n' >"$work/tree/src/nn/good.c"
expect_content "names compared in backend/, and names passed on"
fresh_tree
printf '/* line %d */\n' {1..700} >"$work/tree/src/nn/bad.c"
expect_offence "a file of 700 lines" '^src/nn/bad.c:700: '
fresh_tree
{
    printf 'static int long_function(int x)\n{\n'
    printf '    x += %d;\n' {1..100}
    printf '    return x;\n}\n'
} >"$work/tree/src/nn/bad.c"
expect_offence "a long function" '^src/nn/bad.c:2: function'

build_libraries() { # build_libraries C-TEXT: a library that consists of this text
    rm -rf "$work/libraries"
    mkdir "$work/libraries"
    printf '%s\n' "$1" >"$work/libraries/text.c"
    "$compiler" -fPIC -c "$work/libraries/text.c" -o "$work/libraries/text.o"
    ar rc "$work/libraries/librecollect.a" "$work/libraries/text.o"
    "$compiler" -shared "$work/libraries/text.o" -o "$work/libraries/librecollect.so"
}

fresh_tree
hidden='__attribute__((visibility("hidden")))'
build_libraries "void recollect_a(void) {} $hidden void rc_b(void) {}"
expect_content "good symbols" --libraries "$work/libraries"
build_libraries "void recollect_a(void) {} $hidden void other(void) {}"
expect_offence "a symbol without prefix" 'text.o: external symbol other ' --libraries "$work/libraries"
build_libraries "void recollect_a(void) {} void rc_b(void) {}"
expect_offence "an exported internal symbol" 'exports rc_b' --libraries "$work/libraries"
build_libraries "void abort(void); void recollect_a(void) { abort(); }"
expect_offence "a call of abort" 'must not use abort' --libraries "$work/libraries"

if [ $failures -gt 0 ]; then
    echo "$failures failure(s)"
    exit 1
fi
