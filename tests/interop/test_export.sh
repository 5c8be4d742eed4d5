#!/usr/bin/env bash
# Runs exported.py where there is a Python for it: .venv (script/bootstrap --interop or --dev), or what PYTHON names. Else
# the test is skipped (code 77), which is a failure where RECOLLECT_TEST_NO_SKIP is set.
#
# usage: test_export.sh RECOLLECT EXPORTED
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-$here/../../.venv/bin/python}
if ! "$python" -c 'import numpy, safetensors, onnx, onnxruntime' 2>/dev/null; then
    echo "skipped: '$python' lacks numpy, safetensors, onnx or onnxruntime; script/bootstrap --interop installs them"
    if [ -n "${RECOLLECT_TEST_NO_SKIP:-}" ]; then exit 1; fi
    exit 77
fi
exec "$python" -B "$here/exported.py" "$@"
