#!/usr/bin/env python3
"""Plays what a command did to its files again, as a disk might after a power failure, and looks what becomes of it.

usage: crash.py RECORD ROOT BEFORE EXPECTED TOLD DISKS|all SEED COMMAND...

record.c has written RECORD while a command worked in the folder ROOT, which was as the folder BEFORE is when it began and
as EXPECTED is when it had ended. TOLD is what the command said on stdout. COMMAND is called in ROOT after each failure,
with the library CRASH_PRELOAD: it must end with the files of EXPECTED. DISKS: how many are tried, drawn by SEED.

The power may fail after every operation. What is on the disk then:
- Data and length of a file are there for certain if the file was synced after they were written, and names in a folder
  if the folder was synced after they were given. (That a file is synced says nothing of its name.)
- Of everything later, every single operation may be there or not, whatever the order. A rename is there as a whole.
- The last write that is there may be half of one, or a piece of zeros: its length is there, its bytes are not.
"All" are these choices: every operation that is not certain is missing, alone of all; is there, alone of all; all names
without any data and the other way round; the data of one file alone missing, or zeros; every set of names, if they are
few. Disks that come out alike count once.
"""
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys

FEW_NAMES = 6  # whose sets are all tried


class Operation:
    def __init__(self, kind, number, at, path, second, data, out, err):
        self.kind, self.number, self.at, self.path, self.second, self.data = kind, number, at, path, second, data
        self.out, self.err = out, err  # bytes that had been said before it was over

    def goes_on_with(self, o):
        """A row of writes to one file is one, which may be torn."""
        return (self.kind == o.kind == "write" and self.number == o.number and self.at + len(self.data) == o.at
                and (self.out, self.err) == (o.out, o.err))


def read_record(path):
    with open(path, "rb") as file:
        text = file.read()
    operations, place = [], 0
    while place < len(text):
        end = text.index(b"\n", place)
        kind, *numbers = text[place:end].decode().split()
        number, at, size, first, second, out, err = map(int, numbers)
        place = end + 1
        parts = []
        for length in (first, second, size):
            parts.append(text[place:place + length])
            place += length
        now = Operation(kind, number, at, os.path.normpath(parts[0].decode()), os.path.normpath(parts[1].decode()),
                        parts[2], out, err)
        if operations and operations[-1].goes_on_with(now):
            operations[-1].data += now.data
        else:
            operations.append(now)
    return operations


class Folder:
    """A folder as it was before, with certainty: names and what they stand for."""

    def __init__(self, names=None):
        self.names = names or {}


class File:
    def __init__(self, data=b""):
        self.data = data


def read_before(path):
    folder = Folder()
    for name in sorted(os.listdir(path)):
        inner = os.path.join(path, name)
        if os.path.isdir(inner):
            folder.names[name] = read_before(inner)
        else:
            with open(inner, "rb") as file:
                folder.names[name] = File(file.read())
    return folder


class Effect:
    """What one operation changes: `what` is a file (its data) or a folder (its names)."""

    def __init__(self, index, operation, what, names=None):
        self.index, self.operation, self.what, self.names = index, operation, what, names

    def is_data(self):
        return self.names is None


class Recording:
    """The operations as effects on files and folders, each known by itself, not by its name."""

    def __init__(self, operations, root, before):
        self.operations, self.root = operations, before
        self.top = os.path.normpath(root)
        self.live = {}  # folder -> its names now
        self.by_number = {}
        self.effects = []
        self.syncs = []  # (index, file or folder)
        self._enter(before)
        for index, operation in enumerate(operations):
            self._play(index, operation)
        self.of_names = [e for e in self.effects if not e.is_data()]
        self.of_file, self.contents = {}, {}
        for e in self.effects:
            if e.is_data():
                self.of_file.setdefault(e.what, []).append(e)

    def _enter(self, folder):
        self.live[folder] = dict(folder.names)
        for inner in folder.names.values():
            if isinstance(inner, Folder):
                self._enter(inner)

    def _find(self, path):
        place = self.root
        inner = os.path.relpath(path, self.top)
        for part in inner.split("/") if inner != "." else []:
            place = self.live[place][part]
        return place

    def _give_names(self, index, operation, path, names):
        folder = self._find(os.path.dirname(path))
        for name, what in names.items():
            if what is None:
                self.live[folder].pop(name, None)
            else:
                self.live[folder][name] = what
        self.effects.append(Effect(index, operation, folder, names))

    def _play(self, index, o):
        name = os.path.basename(o.path)
        if o.kind in ("make", "mkdir"):
            made = Folder() if o.kind == "mkdir" else File()
            if o.kind == "mkdir":
                self.live[made] = {}
            self.by_number[o.number] = made
            self._give_names(index, o, o.path, {name: made})
        elif o.kind == "remove":
            self._give_names(index, o, o.path, {name: None})
        elif o.kind in ("rename", "link"):
            if os.path.dirname(o.path) != os.path.dirname(o.second):
                sys.exit(f"crash.py: {o.path} goes into another folder, which is not thought of here")
            names = {os.path.basename(o.second): self._find(o.path)}
            if o.kind == "rename":
                names[name] = None
            self._give_names(index, o, o.path, names)
        elif o.kind == "sync":
            self.syncs.append((index, self._find(o.path) if os.path.normpath(o.path) == self.top else self._of(o)))
        else:
            self.effects.append(Effect(index, o, self._of(o)))

    def _of(self, o):
        """A file or folder by its number; one that was there before is found by its path."""
        if o.number not in self.by_number:
            self.by_number[o.number] = self._find(o.path)
        return self.by_number[o.number]

    def unsure(self, end):
        """Effects of the first `end` operations that no sync has made certain."""
        last = {}
        for index, what in self.syncs:
            if index < end:
                last[what] = index
        return [e for e in self.effects if e.index < end and last.get(e.what, -1) < e.index]

    def disk(self, end, missing, torn):
        """Path -> data of what is there (None: a folder). missing: effects; torn: effect -> 'half' or 'zeros'."""
        names = {}
        for e in self.of_names:
            if e.index < end and e not in missing:
                names.setdefault(e.what, dict(e.what.names)).update(e.names)
        found = {}
        self._walk("", self.root, names, lambda file: self._content(file, end, missing, torn), found)
        return found

    def _content(self, file, end, missing, torn):
        """Most files are the same on most disks: one object for each content."""
        effects = self.of_file.get(file, [])
        key = (file, tuple((e.index, torn.get(e)) for e in effects if e.index < end and e not in missing))
        if key not in self.contents:
            now = bytearray(file.data)
            for e in effects:
                if e.index < end and e not in missing:
                    change(now, e.operation, torn.get(e))
            self.contents[key] = bytes(now)
        return self.contents[key]

    def _walk(self, path, folder, names, content, found):
        for name, what in names.get(folder, folder.names).items():
            inner = f"{path}/{name}" if path else name
            if isinstance(what, Folder):
                found[inner] = None
                self._walk(inner, what, names, content, found)
            elif what is not None:
                found[inner] = content(what)


def change(data, operation, torn):
    """What one write or cut does to the bytes of a file, whole or torn."""
    at, new = operation.at, operation.data
    if operation.kind == "cut":
        del data[at:]
    data.extend(bytes(max(0, at - len(data))))
    if torn == "half":
        new = new[:len(new) // 2]
    elif torn == "zeros":
        new = bytes(len(new))
    data[at:at + len(new)] = new


def choices(unsure):
    """(what is missing, what is torn, in words)"""
    everything = set(unsure)
    names = [e for e in unsure if not e.is_data()]
    data = [e for e in unsure if e.is_data()]
    yield set(), {}, "as it was"
    yield everything, {}, "only what is certain"
    yield set(data), {}, "names without data"
    yield set(names), {}, "data without names"
    for e in unsure:
        yield {e}, {}, f"without operation {e.index + 1}"
        yield everything - {e}, {}, f"only operation {e.index + 1}"
    for what in {e.what for e in data}:
        of_file = [e for e in data if e.what is what]
        yield set(of_file), {}, f"without the data from operation {of_file[0].index + 1} on"
        yield set(), {e: "zeros" for e in of_file}, f"zeros from operation {of_file[0].index + 1} on"
        yield set(), {of_file[-1]: "half"}, f"half of operation {of_file[-1].index + 1}"
        yield set(), {of_file[-1]: "zeros"}, f"zeros of operation {of_file[-1].index + 1}"
    if len(names) <= FEW_NAMES:
        for count in range(2, len(names)):
            for some in itertools.combinations(names, count):
                yield set(some), {}, f"without the names of {[e.index + 1 for e in some]}"
                yield set(some) | set(data), {}, f"without data and the names of {[e.index + 1 for e in some]}"


def digest(disk):
    return hash(tuple(sorted((path, content or b"", content is None) for path, content in disk.items())))


def write_disk(disk, root):
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    for path in sorted(disk):
        whole = os.path.join(root, path)
        if disk[path] is None:
            os.makedirs(whole, exist_ok=True)
        else:
            with open(whole, "wb") as file:
                file.write(disk[path])


def all_choices(recording):
    """Every disk once: (operations that were done, what is missing, what is torn, words)."""
    seen = set()
    last = len(recording.operations)
    for end in range(last + 1):
        said = None if end == last else (recording.operations[end].out, recording.operations[end].err)
        for missing, torn, words in choices(recording.unsure(end)):
            key = (said, digest(recording.disk(end, missing, torn)))
            if key not in seen:
                seen.add(key)
                yield end, missing, torn, words


def some_choices(recording, count):
    """First what is certain at the end, where all was said to be done; then any, the more where much is not certain."""
    last = len(recording.operations)
    yield last, set(recording.unsure(last)), {}, "only what is certain"
    weights = [len(recording.unsure(end)) for end in range(last)]
    for end in sorted(random.choices(range(last), weights, k=count - 1)):
        yield (end, *random.choice(list(choices(recording.unsure(end)))))


# ---- what must hold -----------------------------------------------------------------------------------------------------

def comparable(path, data):
    """Logs tell how much memory a process held, which is not the same in one that goes on."""
    if data is None:
        return None
    if path.endswith("events.jsonl"):
        return re.sub(rb'"memory":[0-9]*,', b"", data)
    if path.endswith("results.json"):
        return re.sub(rb'"log_offset": [0-9]*', b"", data)
    if path.endswith("scalars.csv"):
        return [row.split(b",")[:14] + row.split(b",")[15:] for row in data.split(b"\n")]
    return len(data) if "tfevents" in path else data


def first_difference(a, b):
    place = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return f" from byte {place} on: {a[max(0, place - 20):place + 20]!r}, expected {b[max(0, place - 20):place + 20]!r}"


def differences(found, expected):
    for path in sorted(set(found) | set(expected)):
        if path not in found:
            yield f"{path} is not there"
        elif path not in expected:
            yield f"{path} is left over"
        elif comparable(path, found[path]) != comparable(path, expected[path]):
            yield f"{path} differs" + first_difference(found[path], expected[path])


def lengths_of_logs(found):
    """Results say how long the log beside them is."""
    for path in found:
        if path.endswith("results.json"):
            log = found.get(path.replace("results.json", "events.jsonl"), b"")
            if json.loads(found[path])["log_offset"] != len(log):
                yield f"{path} has another length of the log than {len(log)}"


def flat(folder, path=""):
    found = {}
    for name, what in folder.names.items():
        inner = f"{path}/{name}" if path else name
        if isinstance(what, Folder):
            found[inner] = None
            found.update(flat(what, inner))
        else:
            found[inner] = what.data
    return found


def check_told(disk, text, expected):
    """Every task that a run has told the end of is there: the model's bytes, and results that count it."""
    folders = {os.path.dirname(path) for path in expected if path.endswith("/results.json")}
    for title, task in re.findall(r"^(.*), task (\d+) of \d+: accuracy", text, re.MULTILINE):
        # Folders have the names of methods, lines their titles.
        folder = next(f for f in folders if os.path.basename(f) == TITLES.get(title, title.lower()))
        for file in (f"{folder}/task-{task}.safetensors", f"{folder}/results.json"):
            if file not in disk:
                yield f"it had told of task {task} of {title}, but {file} is lost"
            elif file.endswith(".safetensors") and disk[file] != expected[file]:
                yield f"it had told of task {task} of {title}, but {file} is another"
            elif file.endswith(".json") and json.loads(disk[file])["tasks_done"] < int(task):
                yield f"it had told of task {task} of {title}, but {file} knows of fewer"


TITLES = {"All methods": "first-task", "R-DFCIL": "rdfcil"}


LEFTOVERS = r"\.tmp-\d+-\d+$|\.part$|\.part\.log$|/checkpoint\.safetensors$"


def without_leftovers(disk):
    return {path: data for path, data in disk.items() if not re.search(LEFTOVERS, path)}


def check(disk, text, over, before, expected, root, command):
    for path, data in before.items():
        if disk.get(path) not in (data, expected[path]):
            yield f"{path}, which was there before, is neither that nor the new one"
    if over:  # it had exited with code 0: nothing may be lost, though what it had removed may be back
        yield from differences(without_leftovers(disk), expected)
    yield from check_told(disk, text, expected)
    environment = dict(os.environ, LD_PRELOAD=os.environ["CRASH_PRELOAD"], RECOLLECT_HEAP="count:0")
    again = subprocess.run(command, cwd=root, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, timeout=60, check=False)
    message = again.stderr.decode(errors="replace").strip().replace("\n", "; ")[-400:]
    found = flat(read_before(root))
    # A run removes what was left in its folder. In a folder of the user nobody knows whose it is: it stays.
    left = list(differences(found if command[1] == "run" else without_leftovers(found), expected))
    # What makes one new file refuses to begin where it finds it. Then it must be the right one.
    made = [path for path in found if path in expected and path in message and "is there already" in message]
    if again.returncode == 1 and made:
        left = [f"{path}, which it finds, is another" for path in made if found[path] != expected[path]]
    elif again.returncode != 0:
        left = [f"code {again.returncode} afterwards: {message}"]
    else:
        left += lengths_of_logs(found)
    yield from left


def main():
    record, root, earlier, wanted, told, count, seed, *command = sys.argv[1:]
    earlier = read_before(earlier)
    recording = Recording(read_record(record), root, earlier)
    before = flat(earlier)
    expected = flat(read_before(wanted))
    with open(told, "rb") as file:
        said = file.read()
    random.seed(int(seed))
    tried = list(all_choices(recording) if count == "all" else some_choices(recording, int(count)))
    violations = 0
    for end, missing, torn, words in tried:
        over = end == len(recording.operations)
        disk = recording.disk(end, missing, torn)
        write_disk(disk, root)
        text = (said if over else said[:recording.operations[end].out]).decode()
        for problem in check(disk, text, over, before, expected, root, command):
            violations += 1
            after = f"operation {end} of {len(recording.operations)}"
            if not over:
                o = recording.operations[end]
                after += f" (before {o.kind} {os.path.relpath(o.second if o.kind in ('rename', 'link') else o.path, root)})"
            print(f"VIOLATION: the power failed after {after}, {words}: {problem}")
    print(f"figures: {len(recording.operations)} operations, {len(tried)} disks, {violations} violations")
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
