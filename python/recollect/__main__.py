"""python -m recollect: the program itself."""
import os
import sys

from ._experiment import PROGRAM


def main() -> None:
    os.execv(PROGRAM, ["recollect", *sys.argv[1:]])


if __name__ == "__main__":
    main()
