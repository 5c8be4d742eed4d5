"""Makes the fixtures that are named on the command line, or all of them; see script/fixtures."""
import importlib
import pathlib
import sys
import time

NAMES = ["operations", "losses", "nets", "steps", "rows", "runs", "large", "resize", "class_orders", "pictures",
         "published_nets", "deep_nets", "torch_files"]


def main(names):
    folder = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
    for name in names or NAMES:
        if name not in NAMES:
            sys.exit(f"fixtures: there is no fixture '{name}', expected one of {' '.join(NAMES)}")
        began = time.monotonic()
        path = folder / f"{name}.txt"
        importlib.import_module(name).make().save(path)
        print(f"{path.name}: {path.stat().st_size} bytes, {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
