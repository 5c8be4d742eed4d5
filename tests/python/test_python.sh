#!/usr/bin/env bash
# Lays the Python package out as a wheel does, around a library and a program that are built already, and runs a script with
# it. Skipped (code 77) where there is no Python for it, which is a failure where RECOLLECT_TEST_NO_SKIP is set.
#
# usage: test_python.sh LIBRARY PROGRAM SCRIPT [ARGUMENT...]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-$root/.venv/bin/python}
if ! "$python" -c 'import cffi, numpy, safetensors' 2>/dev/null; then
    echo "skipped: '$python' lacks cffi, numpy or safetensors; script/bootstrap --interop installs them"
    if [ -n "${RECOLLECT_TEST_NO_SKIP:-}" ]; then exit 1; fi
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/recollect"
ln -s "$root"/python/recollect/* "$work/recollect"
rm -rf "$work/recollect/__pycache__"
ln -s "$(realpath "$1")" "$work/recollect/librecollect.so"
ln -s "$(realpath "$2")" "$work/recollect/recollect"
shift 2
"$python" -B "$root/python/declarations.py" "$root/include/recollect/recollect.h" "$work/recollect/_declarations.py" "${CC:-cc}"
export PYTHONPATH=$work PYTHONDONTWRITEBYTECODE=1
cd "$work"
"$python" "$@"
