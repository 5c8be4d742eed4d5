#!/usr/bin/env bash
# Runs interop.py where there is a Python for it: .venv (script/bootstrap --interop or --dev), or what PYTHON names. Else
# the test is skipped (code 77), which is a failure where RECOLLECT_TEST_NO_SKIP is set.
#
# usage: test_interop.sh PROGRAM TEST
#        test_interop.sh --differ ARGUMENT...    fuzz/differ.py in its place
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-$here/../../.venv/bin/python}
needed='import numpy, safetensors, PIL; assert int(PIL.__version__.split(".")[0]) < 13'
if ! "$python" -c "$needed" 2>/dev/null; then
    echo "skipped: '$python' lacks numpy, safetensors or pillow below 13; script/bootstrap --interop installs them"
    if [ -n "${RECOLLECT_TEST_NO_SKIP:-}" ]; then exit 1; fi
    exit 77
fi
if [ "$1" = --differ ]; then
    shift
    exec "$python" -B "$here/../fuzz/differ.py" "$@"
fi
exec "$python" -B "$here/interop.py" "$@"
