#!/usr/bin/env python3
"""Turns the summaries of runs into the Markdown tables of docs/results.md.

usage: bench/results.py FOLDER...

A FOLDER is what `recollect run --out FOLDER` left. Runs of one data set and number of tasks come into one table: a row
per method, with mean ± deviation (of a sample, divisor n - 1) over its runs. Below it stands how it was measured.
"""
import json
import sys
from pathlib import Path


def spread(value):
    if value["mean"] is None:
        return "-"
    if value["deviation"] is None:
        return f"{value['mean']:.2f}"
    return f"{value['mean']:.2f} ± {value['deviation']:.2f}"


def duration(seconds):
    whole = round(seconds or 0)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}" if whole >= 3600 else f"{whole // 60}:{whole % 60:02}"


def table(key, summaries):
    dataset, tasks = key
    print(f"### {dataset}, {tasks} tasks\n")
    print(f"| method | A_{tasks} | mean A | orders | A_1 … A_{tasks} (mean) | time of a run |")
    print("| --- | --- | --- | --- | --- | --- |")
    for summary in summaries:
        for method in summary["methods"]:
            done = [run for run in method["runs"] if run["state"] == "done"]
            if not done:
                continue
            orders = ", ".join(sorted({str(run["order"]) for run in done}))
            each = " ".join(f"{task['mean']:.1f}" for task in method["accuracy"])
            print(f"| {method['title']} | {spread(method['last_accuracy'])} | {spread(method['mean_accuracy'])} "
                  f"| {orders} | {each} | {duration(method['seconds']['total'])} |")
    print()
    for summary in summaries:
        run = summary["run"]
        source = f"recollect {run['version']}" + (f", commit {run['commit']}" if run["commit"] else "")
        print(f"`{summary['command_line']}`: {source}, {run['backend']} {run['precision']} on {run['device']}, "
              f"{summary['jobs']} side by side, {duration(summary['seconds'])} in all.\n")


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__.strip())
    tables = {}
    for folder in sys.argv[1:]:
        summary = json.loads((Path(folder) / "summary.json").read_text())
        tables.setdefault((summary["run"]["dataset"], summary["tasks"]), []).append(summary)
    for key, summaries in sorted(tables.items()):
        table(key, summaries)


if __name__ == "__main__":
    main()
