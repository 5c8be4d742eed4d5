#!/usr/bin/env bash
# Runs head_fit.py where there is a Python with scipy: .venv (script/bootstrap --interop), or what PYTHON names. Else the
# test is skipped (code 77), which is a failure where RECOLLECT_TEST_NO_SKIP is set.
#
# usage: test_head_fit.sh HELPER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-$here/../../.venv/bin/python}
if ! "$python" -c 'import numpy, safetensors, scipy' 2>/dev/null; then
    echo "skipped: '$python' lacks numpy, safetensors or scipy; script/bootstrap --interop installs them"
    if [ -n "${RECOLLECT_TEST_NO_SKIP:-}" ]; then exit 1; fi
    exit 77
fi
exec "$python" -B "$here/head_fit.py" "$@"
