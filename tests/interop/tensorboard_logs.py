"""What TensorBoard finds in the folder of a run is what the log says: every number, histogram and picture, once.

usage: tensorboard_logs.py FOLDER_OF_A_CELL
"""
import csv
import json
import struct
import sys
from pathlib import Path

from tensorboard.backend.event_processing import event_accumulator, event_file_loader

folder = Path(sys.argv[1])
files = [file for file in folder.glob("*tfevents*") if file.stat().st_size > 0]
assert len(files) == 1, files

# The file record by record: its loader checks every checksum.
records = list(event_file_loader.LegacyEventFileLoader(str(files[0])).Load())
assert records[0].file_version == "brain.Event:2", records[0]
assert records[1].session_log.status == 1, records[1]

everything = {event_accumulator.SCALARS: 0, event_accumulator.IMAGES: 0, event_accumulator.HISTOGRAMS: 0}
found = event_accumulator.EventAccumulator(str(folder), size_guidance=everything)
found.Reload()
lines = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
steps = [line for line in lines if line["event"] == "step"]
tasks = [line for line in lines if line["event"] == "task"]
dreams = [line for line in lines if line["event"] == "dreams"]
assert lines[0]["event"] == "run" and lines[-1]["event"] == "end" and lines[-1]["status"] == "done", lines[-1]
assert len(steps) > 10 and len(tasks) == len(lines[0]["task_sizes"]) == 3 and len(dreams) == 2
# Steps of all stages and tasks are counted through, from the first to the last.
for before, line in zip([None] + steps, steps):
    last = before["total_step"] if before is not None else 0
    same = before is not None and (before["task"], before["stage"]) == (line["task"], line["stage"])
    done = before["step"] if same else 0
    assert line["total_step"] - last == line["step"] - done, (before, line)
    assert line["total_steps"] >= line["total_step"]  # a process may have been asked for fewer tasks
assert steps[-1]["total_step"] == steps[-1]["total_steps"]


def narrow(value):
    return struct.unpack("f", struct.pack("f", value))[0]


expected = {}
for line in steps:
    scalars = {name: line.get(name) for name in ("learning_rate", "images_per_second", "memory", "total_loss")}
    scalars.update({f"loss_{term}": value for term, value in line["loss"].items()})
    for name, value in scalars.items():
        if value is not None:
            point = (line["total_step"], line["time"], narrow(value))
            expected.setdefault(f"{line['stage']}/{name}", []).append(point)
results = ("accuracy", "mean_accuracy", "top5", "old_accuracy", "new_accuracy", "forgetting", "backward_transfer",
           "old_norm", "new_norm")
for line in tasks:
    for name in results:
        if line[name] is not None:
            expected.setdefault(f"task/{name}", []).append((line["task"], line["time"], narrow(line[name])))
assert set(found.Tags()["scalars"]) == set(expected), set(found.Tags()["scalars"]) ^ set(expected)
for tag, points in expected.items():
    assert [(e.step, e.wall_time, e.value) for e in found.Scalars(tag)] == points, tag
for name in ("inversion/loss_dce", "training/loss_ce", "refinement/loss_war", "training/memory", "task/accuracy"):
    assert name in expected, name

histograms = {}
for line in steps:
    if "dream_labels" in line:
        histograms.setdefault(f"{line['stage']}/dream_labels", []).append((line["total_step"], line["dream_labels"]))
assert set(found.Tags()["histograms"]) == set(histograms) == {f"{s}/dream_labels" for s in
                                                             ("inversion", "training", "refinement")}
for tag, points in histograms.items():
    assert [(e.step, e.histogram_value.bucket) for e in found.Histograms(tag)] == points, tag
    assert all(sum(counts) == 16 for _, counts in points), tag

assert found.Tags()["images"] == ["dreams"]
for line, image in zip(dreams, found.Images("dreams"), strict=True):
    png = (folder / line["file"]).read_bytes()
    width, height, depth, colour = struct.unpack(">IIBB", png[16:26])
    assert image.encoded_image_string == png and image.step == line["task"]
    assert (image.width, image.height, line["width"], line["height"]) == (width, height, width, height)
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and (depth, colour) == (8, 2)
    assert line["labels"] == sorted(line["labels"]) and len(line["labels"]) == 16

# The table has the same numbers.
with open(folder / "scalars.csv", newline="") as file:
    rows = list(csv.DictReader(file))
assert len(rows) == len(steps)
for row, line in zip(rows, steps):
    flat = {**line, **{f"loss_{term}": value for term, value in line["loss"].items()}}
    for name, text in row.items():
        if name == "dream_labels":
            assert [int(n) for n in text.split()] == line.get(name, []), (name, text)
        elif name == "stage":
            assert text == line[name]
        elif text == "":
            assert flat.get(name) is None, name
        else:
            assert abs(float(text) - flat[name]) <= 1e-8 * abs(flat[name]), (name, text, flat[name])
print(f"{len(steps)} steps, {len(expected)} curves, {len(histograms)} histograms, {len(dreams)} pictures")
