"""Mutation testing: breaks a C file of the library in one place, runs the tests that reach this place, and sees whether
one fails. docs/mutation.md says how to read the results; script/mutate starts it.

A mutant is compiled alone, into a small shared library that the tests preload: it takes the place of the file's
functions in librecollect.so, which the tests and the program of the preset `mutate` link. A mutant of a CUDA file is linked
with the other objects of the emulated module, which the tests of the emulation load. Nothing else is built again, and all
jobs share one build folder."""

import argparse
import concurrent.futures
import glob
import hashlib
import itertools
import json
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import mutants

# Of the mutants that are neither equivalent nor accepted, so many must die: in src/cil, and elsewhere.
LEAST_SHARE, LEAST_SHARE_ELSEWHERE = 0.95, 0.90
MEMORY = 24 << 20        # kB of address space of a test: heap.c keeps 8 << 20 of them apart
LARGEST_FILE = 12 << 20  # blocks of 512 bytes: some tests make a file of 5 GiB that has nothing in it
# What heap.c and method.c stand in front of: a test may have a posix_memalign or methods of its own, and parts of arenas
# are kept apart.
WRAPPED = "-Wl,--wrap=posix_memalign,--wrap=rc_arena_take,--wrap=rc_arena_take_array,--wrap=rc_method_find"
# The tests of the library, by their labels in ctest; those of the emulated module are given its path.
LABELS = {"unit", "cli", "story", "fuzz", "mpi"}
MODULE, MODULE_OBJECTS = "lib/libemulated_cuda.so", "tests/CMakeFiles/emulated_cuda.dir/**/*.o"


def sha(*parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else str(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()[:20]


def read(path, mode="r"):
    with open(path, mode) as file:
        return file.read()


def pool_of(jobs):
    """Threads that stay on two neighbouring cores each, with what they start: the threads of a test then number two, and every
    core has the same work."""
    cores = sorted(os.sched_getaffinity(0))
    pairs = itertools.cycle({core, cores[(i + 1) % len(cores)]} for i, core in enumerate(cores))
    return concurrent.futures.ThreadPoolExecutor(jobs, initializer=lambda: os.sched_setaffinity(0, next(pairs)))


class Run:
    """How a program ended, and what it took."""

    def __init__(self, code, timeout, cpu):
        self.code, self.timeout, self.cpu = code, timeout, cpu


def run_test(test, library, cpu_limit, wall_limit, folder, environment=None):
    """Runs a test with a library in front of the others, or with another module, in a folder of its own. A hang shows in CPU
    time; wall time is for those that wait for each other, and generous, as the machine may be busy."""
    words, more = test.with_mutant(library, folder)
    env = dict(os.environ, TMPDIR=folder, **more, **(environment or {}))
    limits = f"ulimit -c 0; ulimit -S -t {int(cpu_limit) + 1}; ulimit -v {MEMORY}; ulimit -f {LARGEST_FILE}"
    process = subprocess.Popen(["/bin/sh", "-c", f'{limits}; exec "$@"', "sh", *words], env=env, cwd=folder,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    end, pause, late = time.monotonic() + wall_limit, 0.002, False
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > end and not late:
            late = True
            kill_group(process.pid)
        time.sleep(pause)
        pause = min(pause * 1.3, 0.05)
    kill_group(process.pid) # what it may have started
    process.returncode = code = os.waitstatus_to_exitcode(status)
    return Run(code, late or code == -signal.SIGXCPU, usage.ru_utime + usage.ru_stime)


def kill_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


class Test:
    """A test as ctest starts it: a program, or a script that starts programs of the build folder."""

    def __init__(self, build, words, environment):
        self.words, self.environment = words, environment
        self.programs, self.module = os.path.join(build, "bin", ""), os.path.join(build, MODULE)

    def files(self):
        return [word for word in self.words if word != self.module and os.path.isfile(word)]

    def loads_module(self):
        return self.module in self.words or self.module in self.environment.values()

    def missing(self):
        return [word for word in self.words if word.startswith(self.programs) and not os.path.exists(word)]

    def with_mutant(self, library, folder):
        """The words and the environment that start it with a mutant of the library, or of the module."""
        if library.endswith(os.path.basename(MODULE)):
            return ([library if word == self.module else word for word in self.words],
                    {name: library if value == self.module else value for name, value in self.environment.items()})
        return [self.preloaded(word, library, folder) if word.startswith(self.programs) else word for word in self.words], \
            self.environment

    @staticmethod
    def preloaded(program, library, folder):
        """A program of the same name, so that the shell around it starts without the library."""
        wrapper = os.path.join(folder, "with-mutant", os.path.basename(program))
        os.makedirs(os.path.dirname(wrapper), exist_ok=True)
        with open(wrapper, "w") as file:
            file.write(f'#!/bin/sh\nLD_PRELOAD={shlex.quote(library)} exec {shlex.quote(program)} "$@"\n')
        os.chmod(wrapper, 0o755)
        return wrapper


def tests_in(folder, chosen, cuda):
    """{name: Test} of those that were chosen, or of all that test the library, or the emulated module."""
    output = subprocess.run(["ctest", "--show-only=json-v1"], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True).stdout
    tests = {}
    for row in json.loads(output)["tests"] if output else []:
        properties = {entry["name"]: entry["value"] for entry in row.get("properties", [])}
        environment = dict(entry.split("=", 1) for entry in properties.get("ENVIRONMENT", []))
        test = Test(os.path.abspath(folder), row.get("command", [""]), environment)
        takes_part = test.loads_module() if cuda else LABELS & set(properties.get("LABELS", []))
        if row["name"] in chosen if chosen else takes_part:
            tests[row["name"]] = test
    unknown = set(chosen or []) - set(tests)
    if unknown or not tests:
        sys.exit(f"mutate: ctest in {folder} knows no test {', '.join(sorted(unknown))}")
    missing = sorted({path for test in tests.values() for path in test.missing()})
    if missing:
        sys.exit(f"mutate: build first: {', '.join(missing)}")
    return tests


def operations_in(folder):
    """{name: Test} of single operations of the module: check_module has them all, and takes minutes."""
    program, module = os.path.join(os.path.abspath(folder), "bin", "recollect"), os.path.join(os.path.abspath(folder), MODULE)
    names = subprocess.run([program, "selftest", "--list"], stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    return {f"{name}_{precision}": Test(os.path.abspath(folder), [program, "selftest", "--quick", "--backend", "cuda", "--precision",
                                                               precision, "--op", name], {"RECOLLECT_CUDA_MODULE": module})
            for name in names.split() for precision in ("fp32", "bf16")}


class Build:
    """The build folder: how a file is compiled, and the tests."""

    def __init__(self, folder, tests, cuda):
        self.folder, self.cuda = os.path.abspath(folder), cuda
        self.commands = {}
        for entry in json.loads(read(os.path.join(folder, "compile_commands.json"))):
            path = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
            self.commands.setdefault(path, []).append(entry)
        operations = operations_in(folder) if cuda else {}
        self.tests = {name: test for name, test in operations.items() if not tests or name in tests}
        if not tests or set(tests) - set(operations):
            self.tests.update(tests_in(folder, set(tests or []) - set(operations), cuda))
        self.library = os.path.join(self.folder, "lib", "librecollect.so")
        self.library_hash = sha(read(self.library, "rb"))
        guards = read(os.path.join(os.path.dirname(os.path.abspath(__file__)), "heap.c"), "rb") # every test runs on it
        self.test_hash = {name: sha(*(read(path, "rb") for path in test.files()), guards) for name, test in self.tests.items()}

    def compile_commands(self, path):
        """The commands of a file, which may be compiled more than once, each for a type or an instruction set: without
        optimisation, warnings, output and input."""
        entries = self.commands.get(os.path.realpath(path))
        if entries is None:
            sys.exit(f"mutate: {path} is not in {self.folder}/compile_commands.json: not a file of the library?")
        # Some tests compile a file for themselves; the library's objects are those of the targets rc_*.
        library = [entry for entry in entries if "CMakeFiles/rc_" in str(entry.get("arguments") or entry["command"])]
        return [self.bare(entry, path) for entry in library or entries]

    def bare(self, entry, path):
        words = entry.get("arguments") or shlex.split(entry["command"])
        if os.path.basename(words[0]) == "ccache": # every mutant is new
            words = words[1:]
        kept, skip = [], False
        for word in words:
            if skip:
                skip = False
            elif word in ("-o", "-MF", "-MT", "-MQ"):
                skip = True
            elif word not in ("-c", "-MD", "-MMD", "-w", entry["file"], path) and not word.startswith(("-O", "-g", "-W")):
                kept.append(word)
        strict = [] if self.cuda else ["-Werror=incompatible-pointer-types", "-Werror=int-conversion",
                                       "-Werror=implicit-function-declaration"]
        return kept + ["-fPIC", "-g0", *strict, "-iquote", os.path.dirname(os.path.abspath(path)), "-c"]

    def link(self, sources, objects, folder, more=()):
        """The library that a test runs with; None where it cannot be linked."""
        compiler = self.compile_commands(sources[0].path)[0][0]
        if not self.cuda:
            # With the library in tow, for a process that a test starts has the mutant in front, too, and may have no other.
            library, place = os.path.join(folder, "mutant.so"), f"-Wl,-rpath,{os.path.dirname(self.library)}"
            command = [compiler, "-shared", WRAPPED, *more, *objects, self.library, place, "-o", library]
            return library if quiet(command) else None
        replaced = tuple(f"/{source.path}.o" for source in sources)
        others = [path for path in glob.glob(os.path.join(self.folder, MODULE_OBJECTS), recursive=True)
                  if not path.endswith(replaced)]
        library = os.path.join(folder, os.path.basename(MODULE))
        return library if quiet([compiler, "-shared", *more, *objects, *others, "-o", library]) else None


def quiet(command, **more):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          **more).returncode == 0


# ---- which test reaches which line ---------------------------------------------------------------------------------
class Reach:
    """Times and coverage of the tests, kept in a file. A test runs again when it or a file that it reaches has changed."""

    def __init__(self, build, sources, path, jobs, slowest):
        self.build, self.sources, self.slowest = build, sources, slowest
        self.kept = json.loads(read(path)) if os.path.exists(path) else {}
        self.seconds, self.lines = {}, {source.path: {} for source in sources}
        self.failing, self.slow = [], []
        names = [name for name in sorted(build.tests) if not self.is_known(name)]
        work = tempfile.mkdtemp(prefix="mutate-")
        try:
            if names:
                print(f"mutate: sees what {len(names)} tests run, and how long they take", flush=True)
            with pool_of(jobs) as pool:
                if names:
                    self.preload = self.compile_covered(work, pool)
                self.kept.update(zip(names, pool.map(lambda name: self.measure(name, work), names)))
        finally:
            shutil.rmtree(work, ignore_errors=True)
        for name in build.tests:
            self.take(name, self.kept[name])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w") as file:
            json.dump(self.kept, file)
        os.replace(path + ".new", path)

    def is_known(self, name):
        row = self.kept.get(name)
        if row is None or row["hash"] != self.build.test_hash[name]:
            return False
        if row["code"] != 0:
            return row["library"] == self.build.library_hash
        for source in self.sources:
            known = row["lines"].get(source.path)
            if known is None or (known["hash"] != source.hash and any(known["lines"].values())):
                return False
        return True

    def compile_covered(self, work, pool):
        """All sources as one library that counts what is run."""
        commands, objects = [], []
        for i, source in enumerate(self.sources):
            for k, command in enumerate(self.build.compile_commands(source.path)):
                folder = os.path.join(work, f"{i}-{k}")
                os.mkdir(folder)
                objects.append(os.path.join(folder, "covered.o"))
                commands.append(command + ["-O1" if self.build.cuda else "-O0", "--coverage", os.path.abspath(source.path), "-o",
                                           objects[-1]])
        for command, good in zip(commands, pool.map(quiet, commands)):
            if not good:
                sys.exit(f"mutate: does not compile: {shlex.join(command)}")
        library = self.build.link(self.sources, objects, work, ["--coverage"])
        if library is None:
            sys.exit("mutate: could not link the files with --coverage")
        return library

    def measure(self, name, work):
        folder = os.path.join(work, name)
        prefix = os.path.join(folder, "gcov")
        os.mkdir(folder)
        run = run_test(self.build.tests[name], self.preload, self.slowest, 10 * self.slowest, folder, {"GCOV_PREFIX": prefix})
        row = {"hash": self.build.test_hash[name], "library": self.build.library_hash, "code": run.code,
               "seconds": self.slowest if run.timeout else run.cpu, "lines": {}}
        for i, source in enumerate(self.sources):
            lines = {}
            for compiled in glob.glob(os.path.join(work, f"{i}-*")):
                for line, count in self.lines_run(compiled, prefix, source).items():
                    lines[line] = max(lines.get(line, 0), count)
            row["lines"][source.path] = {"hash": source.hash, "lines": lines}
        shutil.rmtree(folder, ignore_errors=True)
        return row

    @staticmethod
    def lines_run(folder, prefix, source):
        """{line: runs} of the lines that have code."""
        data = prefix + os.path.join(folder, "covered.gcda")
        if not os.path.exists(data):
            return {}
        shutil.copy(os.path.join(folder, "covered.gcno"), os.path.dirname(data))
        output = subprocess.run(["gcov", "--json-format", "--stdout", data], cwd=os.path.dirname(data),
                                stdin=subprocess.DEVNULL, capture_output=True).stdout
        lines = {}
        for file in json.loads(output)["files"] if output else []:
            if os.path.realpath(file["file"]) == os.path.realpath(source.path):
                for line in file["lines"]:
                    number = line["line_number"]
                    lines[number] = max(lines.get(number, 0), line["count"])
        return lines

    def take(self, name, row):
        if row["seconds"] >= self.slowest:
            self.slow.append(name)
        elif row["code"] != 0:
            self.failing.append(name)
        else:
            self.seconds[name] = row["seconds"]
            for path, lines in ((source.path, row["lines"][source.path]["lines"]) for source in self.sources):
                for line, count in lines.items():
                    tests = self.lines[path].setdefault(int(line), set())
                    if count:
                        tests.add(name)

    def tests_of(self, mutant):
        """A line that the compiler made no code of (a table, the rest of a long statement) belongs to the code line before
        it in the same function; outside of functions every test counts that runs the file."""
        lines = self.lines[mutant.path]
        for line in range(mutant.line, 0, -1):
            if lines.get(line) or (line in lines and line == mutant.line):
                return lines[line]
            if line in lines or mutant.lines_at_top[line - 1]:
                break
        return set().union(*lines.values())


# ---- one mutant ----------------------------------------------------------------------------------------------------
class Worker:
    """Tries mutants; one for each job."""

    def __init__(self, session):
        self.session = session
        self.folder = tempfile.mkdtemp(prefix="mutate-")

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def compile(self, source, text):
        """The object files of the text, None where it does not compile."""
        path, targets = os.path.join(self.folder, os.path.basename(source.path)), []
        with open(path, "w") as file:
            file.write(text)
        for i, command in enumerate(self.session.build.compile_commands(source.path)):
            targets.append(os.path.join(self.folder, f"mutant-{i}.o"))
            if not quiet(command + ["-O2", os.path.basename(path), "-o", targets[-1]], cwd=self.folder):
                return None
        return targets

    def compile_one(self, source, mutant):
        for replacement in mutant.texts:
            targets = self.compile(source, mutants.apply(source.text, mutant, replacement))
            if targets:
                return targets, replacement
        return None, mutant.texts[0]

    def survived_before(self, mutant, source):
        """The tests, by hash, that this mutant is known to live through."""
        row = self.session.rows.get(mutant.key, {})
        return row.get("lives", {})

    def try_one(self, source, mutant):
        targets, replacement = self.compile_one(source, mutant)
        row = {"key": mutant.key, "file": mutant.path, "line": mutant.line, "kind": mutant.kind,
               "text": mutant.line_text, "old": mutants.one_line(mutant.old), "new": mutants.one_line(replacement)}
        if targets is None:
            return dict(row, status="uncompilable")
        row["object"] = digest = sha(*(read(target, "rb") for target in targets))
        if digest == self.session.original[source.path]:
            return dict(row, status="equivalent")
        if not self.session.is_first(source.path, digest, row["key"]):
            return dict(row, status="duplicate")
        library = self.session.build.link([source], targets, self.folder)
        if library is None:
            return dict(row, status="uncompilable")
        return dict(row, **self.run_tests(source, mutant, library))

    def run_tests(self, source, mutant, library):
        session, lives = self.session, dict(self.survived_before(mutant, source))
        for name in session.order(source.path, session.reach.tests_of(mutant)):
            if lives.get(name) == session.build.test_hash[name]:
                continue
            if session.is_enough([known for known in lives if lives[known] == session.build.test_hash.get(known)]):
                break
            normal, folder = session.reach.seconds[name], os.path.join(self.folder, "run")
            os.makedirs(folder, exist_ok=True)
            run = run_test(session.build.tests[name], library, 3 * normal + 2, 30 * normal + 30, folder)
            shutil.rmtree(folder, ignore_errors=True)
            noticed = run.timeout or run.code != 0
            session.count_try(source.path, name, noticed)
            if noticed:
                return {"status": "timeout" if run.timeout else "killed", "test": name}
            lives[name] = session.build.test_hash[name]
        return {"status": "survived", "lives": lives}


class Session:
    """All mutants of a run, what is known of them, and the file that it is kept in."""

    def __init__(self, options):
        self.options, self.lock = options, threading.Lock()
        self.build = Build(options.build, options.tests, options.files[0].endswith(".cu"))
        headers = sorted(glob.glob("src/**/*.h", recursive=True) + glob.glob("include/**/*.h", recursive=True) +
                         (glob.glob("src/**/*.cuh", recursive=True) if self.build.cuda else []))
        siblings_first = sorted(headers, key=lambda path: os.path.dirname(path) != os.path.dirname(options.files[0]))
        siblings = mutants.Siblings([read(path) for path in siblings_first])
        # What the tests reach is measured for all files of their folders at once, and so only once.
        paths = sorted({path for file in options.files for path in files_in(os.path.dirname(file), file[file.rindex("."):])})
        self.measured = [mutants.Source(path, read(path), mutants.Siblings([read(path)], siblings)) for path in paths]
        self.sources = [source for source in self.measured if source.path in options.files]
        os.makedirs(options.out, exist_ok=True)
        self.results = os.path.join(options.out, "results.jsonl")
        self.rows, self.seen, self.kills, self.tries = {}, {}, {}, {}
        self.load()

    def load(self):
        if self.options.fresh and os.path.exists(self.results):
            os.remove(self.results)
        if os.path.exists(self.results):
            for line in read(self.results).splitlines():
                try:
                    row = json.loads(line)
                except ValueError: # the run was killed while it wrote
                    continue
                self.rows[row["key"]] = row
                if row["status"] in ("killed", "timeout", "survived"):
                    self.seen.setdefault((row["file"], row.get("object")), row["key"])
                for name in row.get("lives", {}):
                    self.count_try(row["file"], name, False)
                if row.get("test"):
                    self.count_try(row["file"], row["test"], True)

    def chosen(self):
        """The mutants of this run."""
        options, picked = self.options, []
        for source in self.sources:
            top = top_level_lines(source)
            new = lines_since(options.since, source.path) if options.since else None
            for mutant in source.mutants:
                mutant.lines_at_top = top
                if new is not None and new.isdisjoint(mutant.lines):
                    continue
                if options.sample >= 1 or mutant.choice(options.seed) < options.sample:
                    picked.append((source, mutant))
        shard, shards = options.shard
        return picked[shard - 1::shards]

    def is_done(self, source, mutant):
        row = self.rows.get(mutant.key)
        if row is None:
            return False
        if row["status"] != "survived":
            return True
        names = self.reach.tests_of(mutant)
        lived = [name for name in names if row["lives"].get(name) == self.build.test_hash[name]]
        return len(lived) == len(names) or self.is_enough(lived)

    def is_enough(self, lived):
        """Has a mutant that lived through these tests had its share of time?"""
        return sum(self.reach.seconds.get(name, 0) for name in lived) >= self.options.budget

    def is_first(self, path, digest, key):
        with self.lock:
            return self.seen.setdefault((path, digest), key) == key

    def count_try(self, path, name, noticed):
        with self.lock:
            self.tries[path, name] = self.tries.get((path, name), 0) + 1
            self.kills[path, name] = self.kills.get((path, name), 0) + noticed

    def order(self, path, names):
        """What notices the most mutants of the file in the least time comes first; half of one try in advance for each."""
        def worth(name):
            rate = (self.kills.get((path, name), 0) + 0.5) / (self.tries.get((path, name), 0) + 1)
            return -rate / (self.reach.seconds[name] + 0.02)
        with self.lock:
            return sorted(names, key=worth)

    def record(self, row):
        with self.lock:
            self.rows[row["key"]] = row
            with open(self.results, "a") as file:
                file.write(json.dumps(row) + "\n")

    def run(self):
        options = self.options
        folders = sorted({os.path.dirname(source.path) for source in self.measured})
        reach = f"reach-{sha(*folders)}.json"
        self.reach = Reach(self.build, self.measured, os.path.join(options.build, "mutation", reach), options.jobs,
                           options.slowest)
        if not any(any(tests for tests in lines.values()) for lines in self.reach.lines.values()):
            sys.exit("mutate: no test runs a line of these files: is gcov there, and of the compiler's version?")
        if self.reach.failing:
            print("mutate: fail without a mutant, left out: " + ", ".join(self.reach.failing))
        if self.reach.slow:
            print(f"mutate: take {options.slowest:g} s or more, left out: " + ", ".join(self.reach.slow))
        if not self.reach.seconds:
            sys.exit("mutate: no test passes")
        picked = self.chosen()
        todo = in_turns([pair for pair in picked if not self.is_done(*pair)], options.seed)
        print(f"mutate: {len(picked)} mutants, {len(picked) - len(todo)} known; tests: {len(self.reach.seconds)}", flush=True)
        workers = [Worker(self) for _ in range(options.jobs)]
        with pool_of(options.jobs) as pool:
            idle = queue_of(workers)
            self.original = dict(pool.map(lambda source: self.compile_original(source, idle), self.sources))
        start = time.monotonic()
        end = start + options.time_limit if options.time_limit else None
        left, done = iter(todo), [0]

        def work(worker):
            while True:
                with self.lock:
                    pair = None if end and time.monotonic() > end else next(left, None)
                if pair is None:
                    return
                self.record(worker.try_one(*pair))
                with self.lock:
                    done[0] += 1
                    if done[0] % 50 == 0:
                        print(f"mutate: {done[0]} of {len(todo)}, {time.monotonic() - start:.0f} s", flush=True)

        with pool_of(options.jobs) as pool:
            list(pool.map(work, workers))
        for worker in workers:
            worker.close()
        return picked, time.monotonic() - start


    def compile_original(self, source, idle):
        worker = idle.get()
        digest = sha(*(read(path, "rb") for path in worker.compile(source, source.text)))
        idle.put(worker)
        return source.path, digest


def queue_of(items):
    idle = queue.SimpleQueue()
    for item in items:
        idle.put(item)
    return idle


def in_turns(pairs, seed):
    """Folder by folder one, and in each folder in the order of the sample: a run that is cut off has tried a fair part."""
    ranked, tried = [], {}
    for source, mutant in sorted(pairs, key=lambda pair: pair[1].choice(seed)):
        folder = os.path.dirname(source.path)
        tried[folder] = tried.get(folder, 0) + 1
        ranked.append((tried[folder], folder, len(ranked), (source, mutant)))
    return [pair for *_, pair in sorted(ranked, key=lambda entry: entry[:3])]


def top_level_lines(source):
    """For each line: does it begin outside of every bracket? There a function or a table begins."""
    top, depth_end = [True] * len(source.lines), 0
    starts = [0]
    for line in source.lines:
        starts.append(starts[-1] + len(line) + 1)
    for token in source.tokens:
        if token.mate > 0 and token.text == "{" and token.outer < 0:
            depth_end = source.tokens[token.mate].end
            for i, begin in enumerate(starts[:-1]):
                if token.start < begin < depth_end:
                    top[i] = False
    return top


# ---- the report ----------------------------------------------------------------------------------------------------
def read_accepted(path):
    """Blocks of four lines: the file, 'line:', 'mutation:', 'reason:'. -> {(file, line text, mutation): reason}"""
    accepted, file, block = {}, None, {}
    if not os.path.exists(path):
        return accepted
    for number, line in enumerate(read(path).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            file, block = line.strip(), {}
            continue
        name, _, value = line.strip().partition(": ")
        block[name.rstrip(":")] = value.strip()
        if name.rstrip(":") == "reason":
            if not value.strip() or not {"line", "mutation"} <= set(block) or file is None:
                sys.exit(f"{path}:{number}: expected a file and, indented, 'line:', 'mutation:' and a 'reason:' in words")
            accepted[file, block["line"], block["mutation"]] = block["reason"]
            block = {}
    return accepted


def describe(row):
    return f"{row['kind']}: `{row['old']}` -> `{row['new']}`"


def report(session, picked, seconds):
    accepted = read_accepted(session.options.accepted)
    names = ("killed", "timeout", "survived", "accepted", "equivalent", "duplicate", "uncompilable", "not run")
    table, survivors, used = {}, [], set()
    for source, mutant in picked:
        row = session.rows.get(mutant.key)
        status = row["status"] if row else "not run"
        if row:
            row = dict(row, line=mutant.line, text=mutant.line_text) # comments may have changed since
            entry = (row["file"], row["text"], describe(row))
            if status == "survived" and entry in accepted:
                status = "accepted"
            if status == "survived":
                survivors.append((row, bool(session.reach.tests_of(mutant))))
            if entry in accepted:
                used.add(entry)
                if status in ("killed", "timeout"):
                    print(f"mutate: accepted, but {row['test']} notices it: {entry}")
        counts = table.setdefault(source.path, dict.fromkeys(names, 0))
        counts[status] += 1
    folders = {}
    for path, counts in table.items():
        folders.setdefault(os.path.dirname(path), []).append(counts)
    total = sum_of(table.values(), names)
    lines = [f"{'file':34}" + "".join(f"{name:>13}" for name in names) + f"{'dies':>9}"]
    for path, counts in [*sorted(table.items()), *((f"{folder}/", sum_of(folders[folder], names)) for folder in sorted(folders)),
                         ("all", total)]:
        lines.append(f"{path:34}" + "".join(f"{counts[name]:13d}" for name in names) + f"{100 * share(counts):8.1f}%")
    lines.append(f"{seconds:.0f} s with {session.options.jobs} jobs, sample {session.options.sample:g}")
    blocks = ["# Survivors without a reason. With a reason, a block belongs into tests/mutation/accepted.txt."]
    for row, reached in sorted(survivors, key=lambda pair: (pair[0]["file"], pair[0]["line"])):
        blocks.append(f"\n# {row['file']}:{row['line']}" + ("" if reached else " (no test runs this line)") +
                      f"\n{row['file']}\n    line: {row['text']}\n    mutation: {describe(row)}\n    reason:")
    with open(os.path.join(session.options.out, "survivors.txt"), "w") as file:
        file.write("\n".join(blocks) + "\n")
    with open(os.path.join(session.options.out, "report.txt"), "w") as file:
        file.write("\n".join(lines) + "\n")
    print("\n".join(lines))
    print(f"survivors: {session.options.out}/survivors.txt")
    options = session.options
    whole = options.sample >= 1 and options.shard == (1, 1) and not options.since
    stale = stale_entries(session, accepted, used) if whole else []
    for entry in stale:
        print(f"mutate: {session.options.accepted} has what is not there any more: {entry}")
    in_cil = all(source.path in default_files() for source in session.sources)
    least = LEAST_SHARE if in_cil else LEAST_SHARE_ELSEWHERE
    good = share(total) >= least and not survivors and not stale and not total["not run"]
    print(f"mutate: {100 * share(total):.1f} % die ({100 * least:.0f} % must), {len(survivors)} survive without a "
          f"reason, {total['accepted']} with one, {total['not run']} were not run")
    return 0 if good else 1


def sum_of(tables, names):
    return {name: sum(counts[name] for counts in tables) for name in names}


def stale_entries(session, accepted, used):
    paths = {source.path for source in session.sources}
    return [entry for entry in accepted if entry[0] in paths and entry not in used]


def share(counts):
    dead = counts["killed"] + counts["timeout"]
    return dead / (dead + counts["survived"]) if dead + counts["survived"] else 1.0


def default_files():
    return files_in("src/cil", ".c")


def files_since(revision):
    """Those of the program are no part of the library."""
    return git("diff", "--name-only", "--diff-filter=d", "--relative", revision, "--", "src/*.c", ":!src/cli").splitlines()


def git(*words):
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


def lines_since(revision, path):
    """The lines that the file did not have then."""
    hunks = re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", git("diff", "-U0", revision, "--", path), re.M)
    return {line for first, count in hunks for line in range(int(first), int(first) + int(count or 1))}


def files_in(folder, kind):
    """measure.cu asks a GPU how fast it is, and is no part of the emulated module."""
    return sorted(path for path in glob.glob(f"{folder}/*{kind}") if os.path.basename(path) != "measure.cu")


def files_of(path):
    """Of a folder, and of those in it; CUDA files where it has any."""
    if not os.path.isdir(path):
        return [path]
    folders = [folder for folder, _, _ in os.walk(path)]
    return sum([files_in(folder, ".cu") for folder in folders], []) or sum([files_in(folder, ".c") for folder in folders], [])


def parse(arguments):
    parser = argparse.ArgumentParser(prog="script/mutate", description="Breaks C files in one place at a time and sees "
                                     "whether a test fails.")
    parser.add_argument("files", nargs="*", help="C or CUDA files of the library, or folders (default: src/cil)")
    parser.add_argument("--all", action="store_true", help="every C file of src/cil, the default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--sample", type=float, default=1.0, help="share of the mutants to try, 0 to 1")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--since", metavar="COMMIT", help="only lines that are new since then (default files: all C files of the "
                        "library that have some)")
    parser.add_argument("--shard", default="1/1", help="K/N: the K-th of N parts")
    parser.add_argument("--slowest", type=float, default=6, help="seconds of CPU: a test that takes longer has no part")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds of CPU: a mutant that lives so long "
                        "meets no further test; a run with more goes on with it")
    parser.add_argument("--time-limit", type=float, default=0, help="seconds after which no further mutant is begun")
    parser.add_argument("--list", action="store_true", help="print the mutants and try none")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--build", default="build/mutate", help="build folder of the preset mutate")
    parser.add_argument("--out", default="build/mutate/mutation", help="folder of results and report")
    parser.add_argument("--accepted", default="tests/mutation/accepted.txt", help="survivors with a reason")
    parser.add_argument("--test", action="append", dest="tests", help="name of a test in ctest, or of an operation "
                        "of the emulated module, as in sgd_fp32 (default: those with the labels unit, cli, story, fuzz and mpi, or all "
                        "that load the emulated module, and all operations)")
    options = parser.parse_args(arguments)
    options.files = sum([files_of(os.path.relpath(path)) for path in options.files], [])
    try:
        options.files = options.files or (files_since(options.since) if options.since else default_files())
    except subprocess.CalledProcessError as error:
        parser.error(error.stderr.strip())
    if not options.files:
        parser.error(f"no C file of the library has changed since {options.since}")
    try:
        shard, shards = (int(part) for part in options.shard.split("/"))
    except ValueError:
        shard = shards = 0
    if not 1 <= shard <= shards:
        parser.error(f"--shard is '{options.shard}', expected K/N with K from 1 to N")
    options.shard = (shard, shards)
    for path in options.files:
        if not path.endswith((".c", ".cu")) or not os.path.exists(path):
            parser.error(f"'{path}' is not a C or CUDA file")
    if len({path.endswith(".cu") for path in options.files}) != 1:
        parser.error("CUDA files have tests of their own: give them alone")
    return options


def main(arguments):
    options = parse(arguments)
    session = Session(options)
    if options.list:
        for source, mutant in session.chosen():
            print(f"{mutant.path}:{mutant.line}: {mutant.kind}: {mutants.one_line(mutant.old)} -> {mutants.one_line(mutant.texts[0])}")
        return 0
    return report(session, *session.run())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
