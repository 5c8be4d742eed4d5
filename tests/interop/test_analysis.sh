#!/usr/bin/env bash
# Runs analysis.py where there is a Python with scipy and scikit-learn: .venv (script/bootstrap --interop), or what PYTHON
# names. Else the test is skipped (code 77), which is a failure where RECOLLECT_TEST_NO_SKIP is set.
#
# usage: test_analysis.sh HELPER PROGRAM
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-$here/../../.venv/bin/python}
if ! "$python" -c 'import numpy, safetensors, scipy, sklearn' 2>/dev/null; then
    echo "skipped: '$python' lacks numpy, safetensors, scipy or scikit-learn; script/bootstrap --interop installs them"
    if [ -n "${RECOLLECT_TEST_NO_SKIP:-}" ]; then exit 1; fi
    exit 77
fi
exec "$python" -B "$here/analysis.py" "$@"
