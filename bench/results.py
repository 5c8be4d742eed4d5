#!/usr/bin/env python3
"""Turns runs into the Markdown tables of docs/results.md.

usage: bench/results.py FOLDER...

A FOLDER is what `recollect run --out FOLDER` left, or is leaving: every results.json below it whose tasks are all done
counts. Runs of one data set and number of tasks come into one table: a row per method, with the mean over its class
orders and seeds ± the deviation of a sample (divisor n - 1). Below it stands how they were measured.
"""
import json
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


def finished(folder):
    for path in sorted(Path(folder).rglob("results.json")):
        results = json.loads(path.read_text())
        if path.parent.name != "first-task" and results["tasks_done"] == len(results["task_sizes"]):
            yield results


def keeps(run):
    """What the method holds for the next task besides the classifier."""
    stored = run["tasks"][-1]["stored"]
    for key, what in (("images", "images"), ("generative_model", "a model of images"), ("statistics", "statistics")):
        if stored[key]:
            return f"{stored[key] / 1e6:.2f} MB of {what}"
    return "nothing"


def row(method, runs):
    orders = ", ".join(str(order) for order in sorted({run["run"]["order"] for run in runs}))
    each = " ".join(f"{statistics.mean(values):.1f}" for values in zip(*(run["accuracy"] for run in runs)))
    time = duration(statistics.mean(run["stage_seconds"]["total"] for run in runs))
    last, mean = (spread([run[key] for run in runs]) for key in ("last_accuracy", "mean_accuracy"))
    print(f"| {method} | {last} | {mean} | {orders} | {each} | {keeps(runs[0])} | {time} |")


def table(dataset, tasks, methods):
    print(f"### {dataset}, {tasks} tasks\n")
    print(f"| method | A_{tasks} | mean A | orders | A_1 … A_{tasks} (mean) | keeps | time of a run |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    sources = {}
    for method, runs in methods.items():
        row(method, runs)
        for run in (each["run"] for each in runs):
            version = f"recollect {run['version']}" + (f", commit {run['commit']}" if run["commit"] else "")
            sources[f"`{run['command_line']}`: {version}, {run['backend']} {run['precision']} on {run['device']}."] = None
    print("\n" + "\n\n".join(sources) + "\n")


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__.strip())
    tables = {}
    for folder in sys.argv[1:]:
        for results in finished(folder):
            key = (results["run"]["dataset"], results["tasks_done"])
            tables.setdefault(key, {}).setdefault(results["method"], []).append(results)
    for (dataset, tasks), methods in sorted(tables.items()):
        table(dataset, tasks, methods)


if __name__ == "__main__":
    main()
