#!/usr/bin/env python3
"""Turns runs into the Markdown tables of docs/results.md.

usage: bench/results.py [--collect INTO] FOLDER|FILE...

--collect copies the results.json of every run that counts, byte for byte, to INTO/DATASET-TASKS-METHOD-order-ORDER.json
(DATASET-TASKS-SETTINGS-METHOD-... for runs of `recollect reproduce` with settings of their own), and leaves alone what is
there. A FILE is such a copy. A FOLDER is what `recollect run --out FOLDER` left, or is leaving: every results.json below
it whose tasks are all done counts. Runs of one data set and number of tasks come into one table: a row per method, with the mean over its class
orders and seeds ± the deviation of a sample (divisor n - 1), beside it what bench/paper.csv says of it, with how much
more or less it is here. Below it stands how they were measured.
"""
import csv
import json
import shutil
import statistics
import sys
from pathlib import Path


def spread(values):
    mean = f"{statistics.mean(values):.2f}"
    return f"{mean} ± {statistics.stdev(values):.2f}" if len(values) > 1 else mean


def duration(seconds):
    whole = round(seconds)
    minutes = f"{whole // 60 % 60}:{whole % 60:02}"
    return f"{whole // 3600}:{minutes:0>5}" if whole >= 3600 else minutes


def published(path):
    """The paper's figures, as {(dataset, tasks, method): {"last": (value, deviation), "mean": ...}}; None: not printed."""
    def number(text):
        return float(text) if text else None
    with open(path, newline="") as file:
        return {(each["dataset"], int(each["tasks"]), each["method"]):
                {key: (number(each[key]), number(each[f"{key}_deviation"])) for key in ("last", "mean")}
                for each in csv.DictReader(file)}


def beside(figure, here):
    """The paper's figure and the difference from what was measured here.

    >>> beside((52.46, 0.35), 51.88)
    '52.46 ± 0.35 (-0.58)'
    >>> beside((24.24, None), 25)
    '24.24 (+0.76)'
    >>> beside((None, None), 25)
    '-'
    """
    value, deviation = figure
    if value is None:
        return "-"
    return f"{value:.2f}" + (f" ± {deviation:.2f}" if deviation is not None else "") + f" ({here - value:+.2f})"


def finished(place):
    """Path and contents of every run that is done."""
    place = Path(place)
    for path in [place] if place.is_file() else sorted(place.rglob("results.json")):
        results = json.loads(path.read_text())
        if path.parent.name != "first-task" and results["tasks_done"] == len(results["task_sizes"]):
            yield path, results


def variant(path, results):
    """What follows data set and tasks in the names that `recollect reproduce` gives runs with settings of their own.

    >>> run = {"method": "rdfcil", "tasks_done": 5, "run": {"dataset": "cifar100", "order": 0}}
    >>> variant(Path("paper/cifar100-5-published/order-0/rdfcil/results.json"), run)
    '-published'
    >>> variant(Path("docs/cifar100-5-published-rdfcil-order-0.json"), run)
    '-published'
    >>> variant(Path("cifar/order-0/rdfcil/results.json"), run), variant(Path("cifar100-5-rdfcil-order-0.json"), run)
    ('', '')
    """
    begin, end = f"{results['run']['dataset']}-{results['tasks_done']}", f"-{results['method']}-order-{results['run']['order']}"
    name = path.stem.removesuffix(end) if path.stem.endswith(end) else path.parts[-4] if len(path.parts) > 3 else ""
    return name.removeprefix(begin) if name.startswith(f"{begin}-") else ""


def collect(path, results, into):
    run = results["run"]
    copy = into / (f"{run['dataset']}-{results['tasks_done']}{variant(path, results)}-{results['method']}-order-"
                   f"{run['order']}.json")
    into.mkdir(parents=True, exist_ok=True)
    if copy.exists():
        print(f"results.py: {copy} is there already, {path} was not copied", file=sys.stderr)
    else:
        shutil.copyfile(path, copy)


def keeps(run):
    """What the method holds for the next task besides the classifier."""
    stored = run["tasks"][-1]["stored"]
    for key, what in (("images", "images"), ("generative_model", "a model of images"), ("statistics", "statistics")):
        if stored[key]:
            return f"{stored[key] / 1e6:.2f} MB of {what}"
    return "nothing"


def mixed(runs):
    """In what the runs of a row differ besides class order and seed: settings that both of two have, and images of
    one's own. (Earlier versions gave the published sets other fingerprints.)

    >>> a, b = ({"run": {"dataset": "folder", "data_fingerprint": text, "config": {"seed": text, "lambda_dce": text}}}
    ...         for text in ("0.05", "0.2"))
    >>> mixed([a, a]), mixed([a, b]), mixed([a, {"run": {"dataset": "folder"}}])
    ([], ['images', 'lambda_dce'], [])
    """
    first = runs[0]["run"]
    found = {name for run in runs for name, value in run["run"].get("config", {}).items()
             if first.get("config", {}).get(name, value) != value} - {"order", "seed", "data", "test_batch"}
    images = {run["run"].get("data_fingerprint") for run in runs} - {None}
    if first["dataset"].split("-")[0] in ("folder", "list", "csv", "idx") and len(images) > 1:
        found.add("images")
    return sorted(found)


def row(method, runs, paper):
    if mixed(runs):
        print(f"results.py: the row {method} is a mean over runs that differ in {', '.join(mixed(runs))}: name fewer "
              "folders, or make a page of them ('recollect report'), which keeps them apart", file=sys.stderr)
    orders = ", ".join(str(order) for order in sorted({run["run"]["order"] for run in runs}))
    each = " ".join(f"{statistics.mean(values):.1f}" for values in zip(*(run["accuracy"] for run in runs)))
    time = duration(statistics.mean(run["stage_seconds"]["total"] for run in runs))
    ours = {key: [run[f"{key}_accuracy"] for run in runs] for key in ("last", "mean")}
    last, mean = (f"{spread(values)} | {beside(paper[key], statistics.mean(values))}" for key, values in ours.items())
    print(f"| {method} | {last} | {mean} | {orders} | {each} | {keeps(runs[0])} | {time} |")


def table(dataset, tasks, methods, paper):
    print(f"### {dataset}, {tasks} tasks\n")
    print(f"| method | A_{tasks} | in the paper | mean A | in the paper | orders | A_1 … A_{tasks} (mean) | keeps | "
          "time of a run |")
    print("|" + " --- |" * 9)
    sources = {}
    for method, runs in methods.items():
        row(method, runs, paper.get((dataset, tasks, method), {"last": (None, None), "mean": (None, None)}))
        for run in (each["run"] for each in runs):
            version = f"recollect {run['version']}" + (f", commit {run['commit']}" if run["commit"] else "")
            sources[f"`{run['command_line']}`: {version}, {run['backend']} {run['precision']} on {run['device']}."] = None
    print("\n" + "\n\n".join(sources) + "\n")


def main():
    places, into = sys.argv[1:], None
    if places[:1] == ["--collect"]:
        into, places = Path(places[1]) if len(places) > 2 else None, places[2:]
    if not places or places[0] in ("-h", "--help"):
        sys.exit(__doc__.strip())
    paper = published(Path(__file__).with_name("paper.csv"))
    tables = {}
    for place in places:
        for path, results in finished(place):
            if into:
                collect(path, results, into)
            key = (results["run"]["dataset"], results["tasks_done"])
            method = results["method"] + variant(path, results)
            tables.setdefault(key, {}).setdefault(method, []).append(results)
    for (dataset, tasks), methods in sorted(tables.items()):
        table(dataset, tasks, methods, paper)


if __name__ == "__main__":
    main()
