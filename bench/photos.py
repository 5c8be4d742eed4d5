#!/usr/bin/env python3
"""How well `learn` does on photographs: a first model of some classes, then more of them in new processes.

usage: bench/photos.py measure FOLDER --images N --out FILE.jsonl [--name NAME] [--lessons 6,2,2] [--seed N]
                               [--recollect PROGRAM] [-- ARGUMENT OF LEARN...]
       bench/photos.py table FILE.jsonl...

measure: FOLDER has train/CLASS/ and test/CLASS/ with images. The classes are taken in the order of their names: the first
six for the first lesson, two each for the next ones. Each lesson is a `recollect learn` of its own, with N images of each
class (all, where there are fewer), which the seed chooses. After each lesson `recollect eval` scores all test images of
all classes taught so far. FILE gets one line for each lesson, at its end: accuracy, how sure the model is and how far
off that is (percent), processor time of `learn` (user and system) and its peak memory. NAME is the row of the table that they belong to; without it that is the arguments of learn.
They go to every lesson. --threads 1 among them keeps the processor time honest on a busy machine.

table: prints the lines of all files as Markdown, a row for each folder, number of images and NAME. Rows of several seeds
are means; accuracies then come with the deviation of a sample (divisor n - 1).
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def put(files, folder):
    """Hard links, where that works: a link with a target would be another thing to read for the program."""
    folder.mkdir(parents=True)
    for file in files:
        try:
            os.link(file, folder / file.name)
        except OSError:
            shutil.copy(file, folder)


def chosen(folder, count, seed):
    """`count` images of a class: the same for every program and setting, and those of fewer are among those of more."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    random.Random(f"{seed} {folder.name}").shuffle(files)
    return sorted(files[:count])


def run(command):
    """Runs a command. Returns what it printed, and what it used."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as complaints:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints)
        printed = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        child.stdout.close()
        complaints.seek(0)
        said = complaints.read().decode(errors="replace")
    if child.returncode != 0:
        sys.exit(f"photos.py: {' '.join(map(str, command))} ended with {child.returncode}:\n{said[-2000:]}")
    return json.loads(printed), said, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, time.monotonic() - began


def choice(said):
    """What learn says that it has chosen."""
    return [line.strip() for line in said.splitlines() if line.startswith("chosen: ")]


def confidence(answers):
    """The mean probability of the class that is named first, and how far probabilities lie from how often they are right:
    the expected calibration error, with ten bins. answers: (probability, is it right?) of each image.

    >>> confidence([(0.75, True), (0.75, False), (0.25, False), (0.25, False)])
    (50.0, 25.0)
    """
    bins = {}
    for probability, right in answers:
        bins.setdefault(min(int(10 * probability), 9), []).append(probability - right)
    sure = statistics.mean(probability for probability, _ in answers)
    return 100 * sure, 100 * sum(abs(sum(found)) for found in bins.values()) / len(answers)


def answers_of(recollect, model, test):
    """What the model names first on each image of the folder, and whether that is its class."""
    command = [recollect, "predict", model, test, "--json", "--top", "1"]
    lines = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    for line in map(json.loads, lines.splitlines()):
        yield line["top"][0]["probability"], line["top"][0]["class"] == Path(line["file"]).parent.name


def measure(options, arguments):
    folder = Path(options.folder)
    classes = sorted(path.name for path in (folder / "train").iterdir() if path.is_dir())
    lessons = [int(number) for number in options.lessons.split(",")]
    if sum(lessons) > len(classes):
        sys.exit(f"photos.py: {folder} has {len(classes)} classes, expected {sum(lessons)} or more")
    first, model = 0, None
    with tempfile.TemporaryDirectory(dir=options.work) as work, open(options.out, "a") as out:
        work = Path(work)
        for lesson, count in enumerate(lessons, 1):
            names = classes[first:first + count]
            for name in names:
                put(chosen(folder / "train" / name, options.images, options.seed), work / f"lesson-{lesson}" / name)
                put(sorted((folder / "test" / name).iterdir()), work / "test" / name)
            following = work / f"{lesson}.safetensors"
            learnt, said, cpu, memory, wall = run(
                [options.recollect, "learn", *([model] if model else []), work / f"lesson-{lesson}", "--out", following,
                 "--seed", str(options.seed), "--json", *arguments])
            scored = run([options.recollect, "eval", following, work / "test", "--json"])[0]
            sure, off = confidence(list(answers_of(options.recollect, following, work / "test")))
            line = {"set": folder.name, "images": options.images, "name": options.name or " ".join(arguments) or "default",
                    "arguments": arguments, "seed": options.seed, "lesson": lesson, "classes": first + count,
                    "trained": learnt["images"], "tested": scored["images"], "accuracy": round(scored["accuracy"], 2),
                    "sure": round(sure, 2), "off": round(off, 2),
                    "cpu_seconds": round(cpu, 2), "seconds": round(wall, 1), "peak_mib": round(memory),
                    "stage_seconds": {stage: round(value, 1) for stage, value in learnt["stage_seconds"].items()},
                    "chosen": choice(said)}
            out.write(json.dumps(line) + "\n")
            out.flush()
            print(f"{line['set']}, {line['name']}, lesson {lesson}: {line['accuracy']:.1f} %, {cpu:.0f} s, {memory:.0f} MiB",
                  flush=True)
            model, first = following, first + count


def spread(values):
    """
    >>> spread([50.0])
    '50.0'
    >>> spread([50.0, 52.0])
    '51.0 ± 1.4'
    """
    mean = f"{statistics.mean(values):.1f}"
    return f"{mean} ± {statistics.stdev(values):.1f}" if len(values) > 1 else mean


def rows(lines):
    """Lines of one row each, in the order in which rows first came: {(set, images, name): {lesson: [line, ...]}}."""
    table = {}
    for line in lines:
        table.setdefault((line["set"], line["images"], line["name"]), {}).setdefault(line["lesson"], []).append(line)
    return table


def render(table):
    """
    >>> line = {"set": "birds", "images": 20, "name": "default", "classes": 6, "accuracy": 50.0, "cpu_seconds": 9.6,
    ...         "peak_mib": 80, "lesson": 1}
    >>> print(render(rows([line, dict(line, lesson=2, classes=8, accuracy=44.44, cpu_seconds=20.5, peak_mib=99)])))
    | set | images a class | settings | 6 classes | 8 | CPU seconds | peak MiB |
    | --- | --- | --- | --- | --- | --- | --- |
    | birds | 20 | default | 50.0 | 44.4 | 10 + 20 = 30 | 99 |
    """
    steps = max(({lesson: lines[0]["classes"] for lesson, lines in row.items()} for row in table.values()), key=len)
    heads = [f"{classes} classes" if lesson == 1 else str(classes) for lesson, classes in sorted(steps.items())]
    text = [["set", "images a class", "settings", *heads, "CPU seconds", "peak MiB"]]
    text.append(["---"] * len(text[0]))
    for (name, images, settings), row in table.items():
        each = [row.get(lesson) for lesson in sorted(steps)]
        seconds = [statistics.mean(line["cpu_seconds"] for line in lines) for lines in each if lines]
        text.append([name, str(images), settings,
                     *(spread([line["accuracy"] for line in lines]) if lines else "" for lines in each),
                     " + ".join(f"{value:.0f}" for value in seconds) + f" = {sum(seconds):.0f}",
                     str(max(line["peak_mib"] for lines in each if lines for line in lines))])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in text)


def main():
    own, arguments = sys.argv[1:], []
    if "--" in own:
        own, arguments = own[:own.index("--")], own[own.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("folder")
    measuring.add_argument("--images", type=int, required=True)
    measuring.add_argument("--out", required=True)
    measuring.add_argument("--name")
    measuring.add_argument("--lessons", default="6,2,2")
    measuring.add_argument("--seed", type=int, default=1)
    measuring.add_argument("--recollect", default=ROOT / "build/release/bin/recollect")
    measuring.add_argument("--work", help="where the folders of links and the models are while it works; on the images' disk")
    printing = commands.add_parser("table")
    printing.add_argument("file", nargs="+")
    options = parser.parse_args(own)
    if options.command == "measure":
        measure(options, arguments)
    else:
        lines = [json.loads(line) for file in options.file for line in Path(file).read_text().splitlines()]
        print(render(rows(lines)))


if __name__ == "__main__":
    main()
