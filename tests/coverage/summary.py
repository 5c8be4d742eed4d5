#!/usr/bin/env python3
"""What the tests of a build that counts (RC_COVERAGE) have run: lines and branches of src without src/backend/cuda.

usage: summary.py BUILD [--lines PERCENT] [--branches PERCENT] [--out FILE] [--page FILE]

Prints a table by folder, and writes each line that never ran, and each branch that never went one way, to --out. Rewrites
the table of --page between its marks. Fails (1) under a limit. A file that is compiled several times counts once: a line
has run where any of its copies has.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def counted(path):
    """The path below the root of a source that counts; None: of one that does not."""
    try:
        name = pathlib.Path(path).resolve().relative_to(ROOT).as_posix()
    except ValueError:
        return None
    return name if name.startswith("src/") and not name.startswith("src/backend/cuda/") else None


def read(build):
    """lines[file][line] = count; branches[file][line, function] = counts, one for each way."""
    lines = collections.defaultdict(collections.Counter)
    branches = collections.defaultdict(dict)
    notes = sorted(build.rglob("*.gcno"))
    notes = [n for n in notes if "/tests/" not in n.as_posix().replace(ROOT.as_posix(), "")]
    if not notes:
        sys.exit(f"coverage: {build} holds nothing that gcov reads")
    for start in range(0, len(notes), 50):
        out = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", *map(str, notes[start:start + 50])],
                             cwd=build, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        units = [text for text in out.splitlines() if text.startswith(b"{")]
        if len(units) != len(notes[start:start + 50]):
            sys.exit("coverage: gcov could not read every file; does a test run still?")
        for text in units:
            take(json.loads(text), build, lines, branches)
    return lines, branches


def take(unit, build, lines, branches):
    """Adds one compiled file and its headers."""
    for entry in unit["files"]:
        path = pathlib.Path(entry["file"])
        name = counted(path if path.is_absolute() else build / path)
        if name is None:
            continue
        for line in entry["lines"]:
            number = line["line_number"]
            lines[name][number] += line["count"]
            ways = [b["count"] for b in line["branches"]]
            if not ways:
                continue
            key = (number, line.get("function_name", ""))
            old = branches[name].get(key, [])
            if len(old) < len(ways):
                old, ways = ways, old
            branches[name][key] = [o + (ways[i] if i < len(ways) else 0) for i, o in enumerate(old)]


def folder(name):
    """Where a file counts in the table."""
    parts = name.split("/")
    return "/".join(parts[:3] if parts[1] == "backend" and len(parts) > 3 else parts[:2])


def percent(part, whole):
    return 100.0 * part / whole if whole else 100.0


def table(lines, branches):
    """Rows (folder, lines run, lines, branches taken, branches), the sum last."""
    rows = collections.defaultdict(lambda: [0, 0, 0, 0])
    for name, counts in lines.items():
        for row in (rows[folder(name)], rows["all"]):
            row[0] += sum(1 for c in counts.values() if c)
            row[1] += len(counts)
            row[2] += sum(1 for ways in branches[name].values() for c in ways if c)
            row[3] += sum(len(ways) for ways in branches[name].values())
    whole = rows.pop("all")
    return [(name, *row) for name, row in sorted(rows.items())] + [("all", *whole)]


def spans(numbers):
    """[1, 2, 3, 7] is '1-3 7'."""
    out = []
    for n in sorted(numbers):
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return " ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in out)


def write_uncovered(lines, branches, path):
    with open(path, "w") as out:
        for name in sorted(lines):
            source = (ROOT / name).read_text().splitlines()
            never = [n for n, c in lines[name].items() if not c]
            ways = [n for (n, _), w in branches[name].items() if any(w) and not all(w)]
            if never or ways:
                out.write(f"== {name}: {len(never)} of {len(lines[name])} lines: {spans(never)}\n")
            for n in sorted(set(never) | set(ways)):
                out.write(f"{'line  ' if n in never else 'branch'} {n:5} {source[n - 1] if n <= len(source) else ''}\n")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build", type=pathlib.Path)
    p.add_argument("--lines", type=float, default=0)
    p.add_argument("--branches", type=float, default=0)
    p.add_argument("--out")
    p.add_argument("--page")
    a = p.parse_args()
    lines, branches = read(a.build.resolve())
    rows = table(lines, branches)
    text = "| folder | lines | run | branches | taken |\n| --- | ---: | ---: | ---: | ---: |\n"
    for name, run, of, taken, ways in rows:
        print(f"{name:28} {run:6} of {of:6} lines {percent(run, of):6.1f} %   "
              f"{taken:6} of {ways:6} branches {percent(taken, ways):6.1f} %")
        text += f"| {name} | {of} | {percent(run, of):.1f} % | {ways} | {percent(taken, ways):.1f} % |\n"
    if a.out:
        write_uncovered(lines, branches, a.out)
    if a.page:
        page = pathlib.Path(a.page).read_text()
        page, found = re.subn(r"(<!-- coverage -->\n\n).*?(\n<!-- end -->)", lambda m: m[1] + text + m[2], page, flags=re.S)
        if found != 1:
            sys.exit(f"coverage: {a.page} has no place for the table")
        pathlib.Path(a.page).write_text(page)
    _, run, of, taken, ways = rows[-1]
    if percent(run, of) < a.lines or percent(taken, ways) < a.branches:
        sys.exit(f"coverage: FAILED: less than {a.lines:g} % of the lines or {a.branches:g} % of the branches")


main()
