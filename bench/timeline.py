#!/usr/bin/env python3
"""One step of a timeline that bench/timeline.c wrote: every kernel in the order of its start, then what each name took.

    timeline.py steps.csv [FIRST]

FIRST is the kernel that begins a step (step_begin_kernel). Of all whole steps the one whose length is the median is shown: when a
kernel began, how long it ran, how long the card was idle before it, and how much of its time a kernel before it still ran. The table
of names shares every moment evenly among the kernels that ran then, so that it adds up to the step.
"""
import csv
import re
import subprocess
import sys


def plain(names):
    """Readable names of functions, without their arguments."""
    text = subprocess.run(["c++filt"], input="\n".join(names), text=True, capture_output=True, check=True).stdout
    texts = [re.sub(r"^void ", "", line).replace("(bool)", "").replace("(int)", "") for line in text.splitlines()]
    return [re.sub(r"\((?!pending|strip_line).*", "", line) for line in texts]


def shares(step, names):
    """{name: [ns of the step, launches]}; a moment in which several kernels ran is shared evenly."""
    share = {name: [0.0, names.count(name)] for name in names}
    edges = sorted({int(row[edge]) for row in step for edge in ("start", "end")})
    for begin, end in zip(edges, edges[1:]):
        running = [name for row, name in zip(step, names) if int(row["start"]) <= begin and int(row["end"]) >= end]
        for name in running:
            share[name][0] += (end - begin) / len(running)
    return share


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    first = sys.argv[2] if len(sys.argv) == 3 else "step_begin_kernel"
    with open(sys.argv[1], newline="", encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["start"]))
    begins = [i for i, row in enumerate(rows) if first in row["name"]]
    steps = [(int(rows[j]["start"]) - int(rows[i]["start"]), i, j) for i, j in zip(begins, begins[1:])]
    if not steps:
        sys.exit(f"timeline.py: {sys.argv[1]} has no two kernels called {first}")
    length, i, j = sorted(steps)[len(steps) // 2]
    step, base = rows[i:j], int(rows[i]["start"])
    names = plain([row["name"] for row in step])
    print(f"{length / 1e3:.1f} us from step to step, {j - i} kernels")
    print("   begin      us    idle  beside  stream  blocks threads  regs  shared  kernel")
    until, idle_all = base, 0
    for row, name in zip(step, names):
        begin, end = int(row["start"]), int(row["end"])
        idle, beside = max(0, begin - until), max(0, min(end, until) - begin)
        idle_all += idle
        until = max(until, end)
        print(f"{(begin - base) / 1e3:8.1f} {(end - begin) / 1e3:7.1f} {idle / 1e3:7.1f} {beside / 1e3:7.1f} {row['stream']:>7} "
              f"{row['blocks']:>7} {row['threads']:>7} {row['registers']:>5} {row['shared']:>7}  {name}")
    print(f"idle between kernels: {idle_all / 1e3:.1f} us")
    print("\n      us  launches  kernel")
    for name, (time, launches) in sorted(shares(step, names).items(), key=lambda item: -item[1][0]):
        print(f"{time / 1e3:8.1f}  {launches:8}  {name}")


if __name__ == "__main__":
    main()
