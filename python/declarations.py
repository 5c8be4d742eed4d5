#!/usr/bin/env python3
"""Makes the declarations that the Python package calls the library with, out of the public header and nothing else.

usage: declarations.py HEADER OUT.py [COMPILER]

The preprocessor of COMPILER (default: cc) takes macros and comments away. cffi turns what is left into a module of
tables. The module needs no compiler, and is the same for every Python and machine.
"""
import re
import subprocess
import sys

import cffi


def declarations(header, compiler):
    """The header as cffi reads it: without its macros, but with the numbers among them."""
    with open(header, encoding="utf-8") as file:
        text = file.read()
    numbers = re.findall(r"^#define RECOLLECT_\w+ \d+$", text, re.MULTILINE)
    text = re.sub(r"^#include .*$", "", text, flags=re.MULTILINE)  # cffi knows size_t and int32_t by itself
    plain = subprocess.run([compiler, "-E", "-P", "-x", "c", "-D__attribute__(x)=", "-"], input=text, check=True,
                           encoding="utf-8", stdout=subprocess.PIPE).stdout
    return "\n".join([*numbers, plain])


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    ffi = cffi.FFI()
    ffi.cdef(declarations(sys.argv[1], sys.argv[3] if len(sys.argv) == 4 else "cc"))
    ffi.set_source("recollect._declarations", None)
    ffi.emit_python_code(sys.argv[2])


if __name__ == "__main__":
    main()
