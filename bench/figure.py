#!/usr/bin/env python3
"""Draws the figure that README.md opens with: how many images are named right after each lesson, in three ways.

usage: bench/figure.py > docs/figures/lessons.svg       draws what PANELS lists
       bench/figure.py TITLE FILE... > FIGURE.svg       draws one panel from other files

A FILE is the results.json of a run, or the lines that `bench/photos.py measure --name NAME` wrote (FILE.jsonl); NAME is one
of WAYS. The first lesson of CwD is one of "all at once", too, and need not be measured twice. All numbers of the figure come from these files, which the program and that script wrote.
"""
import json
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PANELS = [("CIFAR-100, 20 classes a lesson", [f"docs/results/cifar100-5-{method}-order-0.json"
                                               for method in ("joint", "cwd", "finetune")])]
# name: what the figure calls it, its colour, its dashes; and the names of methods in results.json
WAYS = {"all at once": ("all at once", "#57606a", "7 5"),
        "CwD": ("recollect (CwD)", "#0a58ca", ""),
        "fine-tuning": ("fine-tuning", "#bf3b1f", "2 4")}
METHODS = {"joint": "all at once", "cwd": "CwD", "finetune": "fine-tuning"}

WIDTH, HEIGHT = 760, 400                     # of a panel
LEFT, RIGHT, TOP, BOTTOM = 66, 200, 84, 60   # margins around its plot
APART = 40                                   # words at the ends of lines, at least
FONT = 'font-family="Helvetica, Arial, sans-serif"'


def curves(files):
    """{name: [(classes, accuracy), ...]} of the files.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run, lessons = Path(folder) / "results.json", Path(folder) / "lessons.jsonl"
    ...     _ = run.write_text('{"method": "cwd", "task_sizes": [6, 2], "accuracy": [80.5, 70]}')
    ...     _ = lessons.write_text('{"name": "all at once", "classes": 10, "accuracy": 79}\\n{"name": "all at once", "classes": 8, "accuracy": 80}')
    ...     curves([run, lessons])
    {'CwD': [(6, 80.5), (8, 70)], 'all at once': [(6, 80.5), (8, 80), (10, 79)]}
    """
    found = {}
    for file in map(Path, files):
        if file.suffix == ".jsonl":
            for line in map(json.loads, file.read_text().splitlines()):
                found.setdefault(line["name"], []).append((line["classes"], line["accuracy"]))
        else:
            run = json.loads(file.read_text())
            sizes = run["task_sizes"][:len(run["accuracy"])]
            found[METHODS.get(run["method"], run["method"])] = [(sum(sizes[:i + 1]), accuracy) for i, accuracy in enumerate(run["accuracy"])]
    for name, points in found.items():
        if name not in WAYS:
            sys.exit(f"figure.py: '{name}' is none of the ways of the figure, expected one of {', '.join(WAYS)}")
        points.sort()
    if "CwD" in found and "all at once" in found and found["CwD"][0][0] < found["all at once"][0][0]:
        found["all at once"].insert(0, found["CwD"][0])
    return found


def text(x, y, words, colour="#24292f", size=14, anchor="start", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" font-weight="{weight}" '
            f'text-anchor="{anchor}" {FONT}>{escape(words)}</text>')


def panel(title, found, left):
    """The lines of SVG of one panel, whose left edge is there."""
    ticks = sorted({classes for points in found.values() for classes, _ in points})
    low, high = ticks[0], ticks[-1]

    def at(classes, accuracy):
        across = (classes - low) / (high - low) if high > low else 0
        return (left + LEFT + across * (WIDTH - LEFT - RIGHT), TOP + (1 - accuracy / 100) * (HEIGHT - TOP - BOTTOM))
    out = [text(left + 20, 34, title, size=18, weight="bold"),
           text(left + 20, 57, "test images named right, of all classes taught so far", "#57606a")]
    for percent in range(0, 101, 20):
        x, y = at(low, percent)
        out.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{left + WIDTH - RIGHT:.1f}" y2="{y:.1f}" stroke="#d8dee4"/>')
        out.append(text(x - 12, y + 5, f"{percent} %", "#57606a", 13, "end"))
    for classes in ticks:
        x, y = at(classes, 0)
        out.append(text(x, y + 22, str(classes), "#57606a", 13, "middle"))
    out.append(text((at(low, 0)[0] + at(high, 0)[0]) / 2, HEIGHT - 14, "classes taught", "#57606a", 13, "middle"))
    free = 0  # where the words of the next line may begin
    for name, (words, colour, dashes) in WAYS.items():
        if name not in found:
            continue
        points = [at(*point) for point in found[name]]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="3" stroke-dasharray="{dashes}"/>')
        out.extend(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>' for x, y in points)
        x, y = points[-1]
        y = max(y, free)
        free = y + APART
        out.append(text(x + 14, y, words, colour, 15, weight="bold"))
        out.append(text(x + 14, y + 18, f"{found[name][-1][1]:.1f} %", colour, 15))
    return out


def draw(panels):
    """
    >>> svg = draw([("A & B", {"CwD": [(6, 80.0), (8, 70.0)], "fine-tuning": [(6, 80.0), (8, 20.0)]})])
    >>> 'A &amp; B' in svg and '>70.0 %<' in svg and svg.count('<polyline') == 2
    True
    """
    width = WIDTH * len(panels)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" viewBox="0 0 {width} {HEIGHT}" '
           'role="img">',
           '<title>Accuracy after each lesson: recollect between fine-tuning and learning all at once</title>',
           f'<rect width="{width}" height="{HEIGHT}" rx="8" fill="#ffffff"/>']
    for i, (title, found) in enumerate(panels):
        out += panel(title, found, i * WIDTH)
    return "\n".join(out + ["</svg>"])


def main():
    title, files = sys.argv[1:2], sys.argv[2:]
    if title and not files or title in (["-h"], ["--help"]):
        sys.exit(__doc__)
    chosen = [(title[0], files)] if title else [(name, [ROOT / file for file in listed]) for name, listed in PANELS]
    print(draw([(name, curves(listed)) for name, listed in chosen]))


if __name__ == "__main__":
    main()
