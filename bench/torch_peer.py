#!/usr/bin/env python3
"""recollect against PyTorch on the same three whole steps: in fp32 on all cores of one machine, or on its GPU.

    torch_peer.py [--device cpu|cuda] [--recollect PATH] [--steps train_first,train_next,inversion] [--json FILE]

Steps, each from a batch that is ready in memory to updated weights (no image decoding, no augmentation):
  train_first  task 1: ResNet-32, head of 20 rows, cross-entropy, SGD.
  train_next   task >= 2 of CwD, 20 old and 20 new classes: dreams from the generator, the old model on dreams
               and on the real batch, the student on both (two train-mode passes), LCE + HKD + RKD + WAR,
               backward, SGD.
  inversion    generator in train mode, frozen classifier with the BN statistics loss, cross-entropy,
               diversity and DCE, backward to the generator, Adam.
torch_steps.py holds PyTorch's side.

Every configuration (memory layout, oneDNN on or off, allocator settings, torch.compile) of every step runs in
a process of its own. So many of them as --at-once says get ready side by side, for compiling takes minutes; each
is measured alone, once all of those are ready. Where a step has more configurations than finalists, they are
tried for some steps first, and the fastest stay in memory. Last, step by step, the finalists take turns with
recollect, one round each (A B C A B C ...). The one with the lowest median over the rounds is the one we
compare with. A process that fails, or is not ready after --limit seconds, is reported and left out. On a
machine shared with others, --quiet S waits up to S seconds before each turn for the others to pause; "cpu ms",
the processor time of a step over all threads, moves less than the wall clock, and "others" says how much of the
machine other processes took while a side was measured. Progress goes to stderr.

PyTorch's memory is ru_maxrss of its process at the end minus ru_maxrss after importing torch and one tiny
convolution, before building any net: weights, activations, gradients, optimiser state, oneDNN's scratch
memory and whatever the allocator keeps, but not the interpreter and the libraries as loaded. ru_maxrss only
ever grows, hence one process per step and configuration, started from a parent that does not import torch.
torch.compile's figure contains the compiler. On a GPU it is the peak of what PyTorch's allocator handed out.

On a GPU "eager" is how published code runs (fp32, TF32 in convolutions); the others take bf16 under autocast and
channels last, as one CUDA graph or compiled. There cuDNN chooses its algorithms by the clock, so that the
processes import PyTorch together but get ready one after the other.
"""
import argparse
import json
import math
import os
import platform
import resource
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BEGAN = time.perf_counter()
STEPS = ("train_first", "train_next", "inversion")
ROW = "%-12s %-31s %9s %8s %8s %8s %8s  %s"

# Advice for PyTorch on Arm servers: huge pages for tensors, a large cache of oneDNN primitives; and
# freed blocks stay in the process instead of going back to the system at every step.
ALLOCATOR_ENV = {"THP_MEM_ALLOC_ENABLE": "1", "LRU_CACHE_CAPACITY": "1024", "MALLOC_TOP_PAD_": str(64 << 20),
                 "MALLOC_MMAP_THRESHOLD_": str(4 << 30), "MALLOC_TRIM_THRESHOLD_": str(16 << 30)}
STRICT_FP32_ENV = {"ONEDNN_DEFAULT_FPMATH_MODE": "STRICT", "DNNL_DEFAULT_FPMATH_MODE": "STRICT"}


def configuration(channels_last=False, allocator=True, onednn=True, onednn_backward=True, compiled=False, bf16=False,
                  graph=False):
    return {"channels_last": channels_last, "onednn": onednn, "onednn_backward": onednn_backward, "compile": compiled,
            "bf16": bf16, "graph": graph, "env": ALLOCATOR_ENV if allocator else {}}


# "mixed": where oneDNN has fast kernels for forward only (Arm without SVE), backward may do better without.
CONFIGURATIONS = {
    "default": configuration(allocator=False),
    "channels_last": configuration(True, allocator=False),
    "tuned": configuration(),
    "tuned_channels_last": configuration(True),
    "mixed": configuration(onednn_backward=False),
    "mixed_channels_last": configuration(True, onednn_backward=False),
    "no_onednn": configuration(onednn=False, onednn_backward=False),
    "no_onednn_channels_last": configuration(True, onednn=False, onednn_backward=False),
    "compile": configuration(compiled=True),
    "compile_channels_last": configuration(True, compiled=True),
}
GPU_CONFIGURATIONS = {
    "eager": configuration(allocator=False),
    "eager_bf16": configuration(True, allocator=False, bf16=True),
    "graph": configuration(True, allocator=False, graph=True),
    "graph_bf16": configuration(True, allocator=False, bf16=True, graph=True),
    "compile_bf16": configuration(True, allocator=False, compiled=True, bf16=True),
    "compile_graph_bf16": configuration(True, allocator=False, compiled=True, bf16=True, graph=True),
}


class Usage:
    """Share of all cores that processes other than the measured one took since it was made (Linux)."""

    def __init__(self):
        self.start, self.busy = time.perf_counter(), self.busy_seconds()

    @staticmethod
    def busy_seconds():
        try:
            with open("/proc/stat") as file:
                user, nice, system, _, _, irq, soft_irq, steal = map(int, file.readline().split()[1:9])
        except OSError:
            return 0.0
        return (user + nice + system + irq + soft_irq + steal) / os.sysconf("SC_CLK_TCK")

    def others(self, own_seconds):
        taken = self.busy_seconds() - self.busy - own_seconds
        return max(0.0, taken / (os.cpu_count() * (time.perf_counter() - self.start)))


def wait_until_quiet(limit_s):
    """Returns when other processes take less than 4 % of the machine, or after limit_s seconds."""
    end = time.perf_counter() + limit_s
    while time.perf_counter() < end:
        usage = Usage()
        time.sleep(0.5)
        if usage.others(0.0) < 0.04:
            return


def cause(complaints):
    """Of all that a process wrote before it died: its last error. torch.compile tells the cause in lines after that
    (as "context" of the error), and then gives advice.

    >>> cause("warning\\nTorchRuntimeError: a call failed\\n  Hint: try\\n  Developer debug context: two devices\\n  Note: read")
    'TorchRuntimeError: a call failed; Developer debug context: two devices'
    >>> cause("Killed\\n"), cause("")
    ('Killed', 'ended')
    """
    lines = [line.strip() for line in complaints.strip().splitlines() if line.strip()] or ["ended"]
    last = max((i for i, line in enumerate(lines) if "Error: " in line), default=len(lines) - 1)
    context = [line for line in lines[last + 1:] if "context: " in line]
    return "; ".join([lines[last]] + context[:1])[:400]


class Worker:
    """One process of the peer. The methods that wait for it raise RuntimeError when it ends early or takes too long."""

    def __init__(self, arguments, step, name, profile=False):
        self.step, self.name, self.limit_s = step, name, arguments.limit
        self.round_ms, self.cpu_ms, self.others, self.minimum, self.peak = [], [], [], math.inf, 0
        job = dict(arguments.known[name], device=arguments.device, step=step, batch=arguments.batch,
                   size=arguments.size, threads=arguments.threads, profile=profile)
        env = dict(os.environ, OMP_NUM_THREADS=str(arguments.threads), **STRICT_FP32_ENV, **job["env"])
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), arguments.peer + "_steps.py")
        self.complaints = tempfile.TemporaryFile("w+", errors="replace")
        # a session of its own: what it starts to compile ends with it
        self.process = subprocess.Popen([sys.executable, program, json.dumps(job)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.complaints, env=env, text=True,
                                        start_new_session=True)

    def ask(self, line):
        self.began = time.perf_counter()
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass   # it has ended: read() tells why

    def read(self):
        end = self.began + self.limit_s
        ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, end - time.perf_counter()))
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self.stop()
            self.complaints.seek(0)
            late = "no answer in %d s" % self.limit_s
            raise RuntimeError(cause(self.complaints.read()) if ready else late)
        return json.loads(line)

    def prepare(self):
        """Lets it build and warm up its step; get_ready() waits for that."""
        self.ask("prepare")

    def get_ready(self):
        hello = self.read()
        self.version, self.note, self.fp32_error = hello["version"], hello["note"], hello["fp32_error"]

    def measure(self, steps):
        usage = Usage()
        self.ask(str(steps))
        answer = self.read()
        self.round_ms.append(statistics.median(answer["ms"]))
        self.cpu_ms.append(answer["cpu_ms"])
        self.others.append(usage.others(1e-3 * answer["cpu_ms"] * steps))
        self.minimum = min(self.minimum, *answer["ms"])
        self.peak = answer["peak_bytes"]

    def forget(self):
        """What was measured so far, but for the least time."""
        self.round_ms, self.cpu_ms, self.others = [], [], []

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()

    def result(self):
        return {"configuration": self.name, "ms": statistics.median(self.round_ms), "min_ms": self.minimum,
                "cpu_ms": statistics.median(self.cpu_ms), "others": statistics.median(self.others),
                "peak_bytes": self.peak, "round_ms": self.round_ms, "round_others": self.others,
                "note": self.note, "version": self.version, "fp32_relative_error": self.fp32_error}


def recollect_step(arguments, step):
    """One run of our program: its object {"name", "ms", "threads", "peak_bytes"} with "others" added."""
    command = [arguments.recollect, "bench", "--step", step, "--json"]
    if arguments.device == "cuda":
        command += ["--backend", "cuda"]
    for option, default in (("batch", 128), ("size", 32), ("threads", os.cpu_count())):
        if getattr(arguments, option) != default:
            command += ["--" + option, str(getattr(arguments, option))]
    wait_until_quiet(arguments.quiet)
    usage, before = Usage(), resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.limit)
    except subprocess.TimeoutExpired:
        raise RuntimeError("%s: no answer in %d s" % (" ".join(command), arguments.limit))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    others = usage.others(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    if done.returncode != 0:
        raise RuntimeError("%s: exit status %d: %s" % (" ".join(command), done.returncode, done.stderr.strip()))
    found = [s for s in json.loads(done.stdout)["steps"] if s["name"] == step]
    if len(found) != 1:
        raise RuntimeError("%s: expected one entry named %s in \"steps\", found %d" %
                           (" ".join(command), step, len(found)))
    return dict(found[0], others=others)


def progress(text, *values):
    print("%6.1f s: %s" % (time.perf_counter() - BEGAN, text % values), file=sys.stderr, flush=True)


class Contest:
    """One step: who has been tried, who is left, who was dropped and why."""

    def __init__(self, arguments, step):
        self.arguments, self.step = arguments, step
        self.workers, self.tried, self.dropped, self.ours = [], [], {}, []

    def drop(self, worker, problem):
        self.dropped[worker.name] = str(problem)
        print_row(self.step, worker.name, {}, "dropped: %s" % problem)
        worker.stop()
        if worker in self.workers:
            self.workers.remove(worker)

    def measure(self, worker):
        wait_until_quiet(self.arguments.quiet)
        try:
            worker.measure(self.arguments.repeat)
        except RuntimeError as problem:
            self.drop(worker, problem)

    def admit(self, worker):
        """One that is ready. Where there are more than can be finalists, it is tried, and the slowest leaves."""
        self.workers.append(worker)
        if len(self.arguments.configurations) <= self.arguments.finalists:
            return
        for _ in range(3):
            if worker in self.workers:
                self.measure(worker)
        if worker not in self.workers:
            return
        self.tried.append(worker.result())
        print_peer(self.step, "tried", self.tried[-1])
        worker.forget()
        fastest = sorted(self.workers, key=lambda w: w.minimum)
        for slow in fastest[self.arguments.finalists:]:
            slow.stop()
        self.workers = fastest[:self.arguments.finalists]

    def our_turn(self):
        """Returns the milliseconds of recollect as text."""
        if not self.arguments.recollect or "recollect" in self.dropped:
            return []
        try:
            self.ours.append(recollect_step(self.arguments, self.step))
            return ["recollect %.1f" % self.ours[-1]["ms"]]
        except RuntimeError as problem:
            self.dropped["recollect"] = str(problem)
            print_row(self.step, "recollect", {}, "failed: %s" % problem)
            return []

    def run(self):
        """The finalists and, with --recollect, our program in turns."""
        for number in range(self.arguments.rounds):
            for worker in list(self.workers):
                self.measure(worker)
            turn = ["%s %.1f" % (w.name, w.round_ms[-1]) for w in self.workers] + self.our_turn()
            progress("%s, round %d: %s", self.step, number + 1, ", ".join(turn))
        final = sorted((w.result() for w in self.workers), key=lambda r: r["ms"])
        self.stop()
        for result in final:
            print_peer(self.step, self.arguments.peer, result)
        return dict({"name": self.step, self.arguments.peer: final, "tried": self.tried, "dropped": self.dropped},
                    **judge(self.step, final, self.ours))

    def stop(self):
        for worker in self.workers:
            worker.stop()


def get_ready(contests, workers):
    """Waits for workers that prepare themselves side by side, and drops those that fail."""
    waiting, ready = list(workers), []
    while waiting:
        next_limit = min(w.began + w.limit_s for w in waiting) - time.perf_counter()
        answered, _, _ = select.select([w.process.stdout for w in waiting], [], [], max(0.0, next_limit))
        for worker in list(waiting):
            if worker.process.stdout not in answered and time.perf_counter() < worker.began + worker.limit_s:
                continue
            waiting.remove(worker)
            try:
                worker.get_ready()
                ready.append(worker)
                progress("%s, %s: ready after %.1f s", worker.step, worker.name, time.perf_counter() - worker.began)
            except RuntimeError as problem:
                contests[worker.step].drop(worker, problem)
    return ready


def compare(arguments):
    """Yields the result of each step."""
    contests = {step: Contest(arguments, step) for step in arguments.steps}
    jobs = [(step, name) for name in arguments.configurations for step in arguments.steps]
    started = []
    try:
        for first in range(0, len(jobs), arguments.at_once):
            group = [Worker(arguments, step, name) for step, name in jobs[first:first + arguments.at_once]]
            started += group
            progress("%d processes started", len(group))
            together = [group] if arguments.device == "cpu" else [[worker] for worker in group]
            ready = []
            for some in together:
                for worker in some:
                    worker.prepare()
                ready += get_ready(contests, some)
            for worker in ready:
                contests[worker.step].admit(worker)
        for step in arguments.steps:
            yield contests[step].run()
    finally:
        for worker in started:
            worker.stop()


def judge(step, final, ours):
    """Our side of the result: median, minimum and ratio to the peer's best configuration."""
    if not ours:
        return {}
    mine = {"ms": statistics.median(o["ms"] for o in ours), "min_ms": min(o["ms"] for o in ours),
            "others": statistics.median(o["others"] for o in ours), "threads": ours[0]["threads"],
            "peak_bytes": max(o["peak_bytes"] for o in ours), "round_ms": [o["ms"] for o in ours]}
    if not final:
        print_row(step, "recollect", mine, "")
        return {"recollect": mine}
    ratio = final[0]["ms"] / mine["ms"]
    memory_ratio = final[0]["peak_bytes"] / max(1, mine["peak_bytes"])
    remark = "%.2f times the speed and 1/%.1f of the memory" % (ratio, memory_ratio)
    print_row(step, "recollect", mine, remark)
    return {"recollect": mine, "ratio": ratio, "memory_ratio": memory_ratio}


def print_row(step, side, r, remark):
    def column(key, scale=1.0, digits=1):
        return "%.*f" % (digits, r[key] * scale) if key in r else "-"
    print(ROW % (step, side, column("ms"), column("min_ms"), column("cpu_ms"), column("others", 100, 0),
                 column("peak_bytes", 2**-20, 0), remark), flush=True)


def print_peer(step, word, result):
    print_row(step, word + " " + result["configuration"], result, result["note"])


def print_profile(arguments, step):
    for name in arguments.configurations:
        worker = Worker(arguments, step, name, profile=True)
        try:
            worker.prepare()
            worker.get_ready()
            print("%s, %s, sum of 3 steps\n%s" % (step, name, worker.read()["table"]), flush=True)
        except RuntimeError as problem:
            print("%s, %s: dropped: %s" % (step, name, problem))
        finally:
            worker.stop()


def names(known):
    def parse(text):
        chosen = text.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError("%r is none of %s" % (name, ", ".join(known)))
        return chosen
    return parse


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("%r: expected at least 1" % text)
    return value


def add_options(parser, steps):
    """What every peer takes."""
    parser.add_argument("--recollect", metavar="PATH", help="our program; without it only the peer runs")
    parser.add_argument("--steps", type=names(steps), default=list(steps), help="comma-separated step names")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--finalists", type=positive, default=2, help="configurations kept for rounds (2)")
    parser.add_argument("--at-once", type=positive, default=os.cpu_count(),
                        help="processes that get ready at the same time (as many as cores)")
    parser.add_argument("--rounds", type=positive, default=7, help="turns of the finalists and recollect (7)")
    parser.add_argument("--repeat", type=positive, default=2, help="measurements of the peer in one turn (2)")
    parser.add_argument("--threads", type=positive, default=os.cpu_count(), help="default: all cores")
    parser.add_argument("--batch", type=positive, default=128)
    parser.add_argument("--size", type=int, choices=(32, 64, 224), default=32, help="image side in pixels")
    parser.add_argument("--quiet", type=float, default=0, metavar="S",
                        help="before each turn wait up to S seconds until nobody else uses the machine")
    parser.add_argument("--limit", type=positive, default=400,
                        help="seconds to wait for one answer, compiling included (400)")
    parser.add_argument("--json", metavar="FILE", help="write all figures to FILE")


def choose(parser, arguments, peer, known):
    """The peer and its configurations, those that were asked for."""
    arguments.peer, arguments.known = peer, known
    try:
        arguments.configurations = names(known)(arguments.configurations) if arguments.configurations else list(known)
    except argparse.ArgumentTypeError as problem:
        parser.error("argument --configurations: %s" % problem)
    return arguments


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, STEPS)
    parser.add_argument("--configurations", help="comma-separated (all): " + ", ".join(CONFIGURATIONS) +
                        "; on cuda: " + ", ".join(GPU_CONFIGURATIONS))
    parser.add_argument("--profile", action="store_true", help="print the profiler's top operations instead")
    arguments = parser.parse_args()
    return choose(parser, arguments, "torch", GPU_CONFIGURATIONS if arguments.device == "cuda" else CONFIGURATIONS)


def write_json(arguments, results):
    figures = {"machine": platform.machine(), "device": arguments.device, "cores": os.cpu_count(),
               "threads": arguments.threads, "batch": arguments.batch, "size": arguments.size,
               "rounds": arguments.rounds, "steps": results}
    with open(arguments.json, "w") as file:
        json.dump(figures, file, indent=1)


def run(arguments):
    """Prints a table, and writes what it has after every step."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))   # the processes are stopped on the way out
    print("%s, %s, %d threads, batch %d, %d px, %d rounds, load %.1f" % (
        platform.machine(), arguments.device, arguments.threads, arguments.batch, arguments.size, arguments.rounds,
        os.getloadavg()[0]))
    print(ROW % ("step", "side", "median ms", "min ms", "cpu ms", "others %", "peak MiB", ""), flush=True)
    results = []
    for result in compare(arguments):
        results.append(result)
        if arguments.json:
            write_json(arguments, results)


def main():
    arguments = parse_arguments()
    if not arguments.profile:
        return run(arguments)
    for step in arguments.steps:
        print_profile(arguments, step)


if __name__ == "__main__":
    main()
