"""Experiments: the program runs them, and its files are read as dicts."""
from __future__ import annotations

import collections
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Callable, Mapping

from ._errors import RunError
from ._library import FOLDER, PathLike, logger, option_text

PROGRAM = FOLDER / "recollect"
LAST_LINES = 20  # of what the program says, which the message of a failure shows


def run(preset: PathLike, out: PathLike, *, set: Mapping[str, object] | None = None,
        progress: Callable[[str], object] | None = None, **options: object) -> dict[str, Any]:
    """Runs an experiment, as `recollect run PRESET --out OUT` does, and returns results(out).

    set: settings to change. Other options are those of the program: method=["cwd", "finetune"],
    data="cifar-100-binary", orders=[0, 1, 2], resume=True, stop_after=1, ... progress: is called with each line that
    the program says; the logger "recollect" gets them, too. Ctrl-C, or what `progress` raises, stops the run at a
    checkpoint, and resume=True goes on from there. RunError: the program ended with a failure; its message is the
    text.
    """
    command = [str(PROGRAM), "run", os.fspath(preset), "--out", os.fspath(out)]
    for name, value in options.items():
        if value is None or value is False:
            continue
        command.append("--" + name.replace("_", "-"))
        if value is not True:
            command.append(option_text(value))
    for name, value in (set or {}).items():
        command += ["--set", f"{name}={option_text(value)}"]
    said: collections.deque[str] = collections.deque(maxlen=LAST_LINES)
    # In a session of its own: Ctrl-C then reaches it once, from here. A second one would end it without a checkpoint.
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          start_new_session=True) as child:
        try:
            assert child.stderr is not None
            for line in child.stderr:
                text = line.decode("utf-8", "replace").rstrip("\n")
                said.append(text)
                logger.info("%s", text)
                if progress is not None:
                    progress(text)
            child.wait()
        except BaseException:
            child.send_signal(signal.SIGINT)
            child.communicate()  # until it has written its checkpoint
            raise
    if child.returncode != 0:
        error = RunError("\n".join(line for line in said if line.startswith("recollect: ")) or "\n".join(said))
        error.code = child.returncode
        raise error
    return results(out)


def results(folder: PathLike) -> dict[str, Any]:
    """The results of a run: summary.json as a dict. Each run of a method (["methods"][i]["runs"][j]) has its own
    results.json under "results": tasks, classes, confusion matrix, the configuration; None while it has none."""
    folder = Path(folder)
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    for method in summary["methods"]:
        for one in method["runs"]:
            file = folder / one["path"] / "results.json"
            one["results"] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    return summary
