"""Fixtures: what PyTorch computes in float64, condensed so that a C test can check it without Python.

Inputs are never stored. Tensor "case/name" is made of the Philox stream whose number is the FNV-1a hash of that name,
keyed by the seed of its case; tests/support/oracle.c makes the same numbers:

    value[i] = float(offset + scale * (2 u_i - 1)),  u_i the 24-bit uniform, float: rounded once to float32

but for a few biases that are nudged away from a kink: value[i] = float(value[i] + delta). A ReLU or a maximum whose
argument a float rounds to the other side changes a gradient by far more than rounding does, in any implementation, so
inputs with which floats are compared stay away from such places (Net.nudge in architectures.py).

A result is stored as its norm, eight dot products with vectors of +-1 (vector j takes bit j of element i of the stream
"case/name#signs") and 64 entries (indices below(count), elements 0 .. 63 of the stream "case/name#samples"). A result
of 64 entries or fewer is stored whole. A case that says brief=1 stores norms and dot products alone, and
0 for what is nothing but rounding. Activations are digested as (n, h, w, c), parameters in PyTorch's layout.

A file is lines of text:
    case NAME seed=SEED key=value ...
    nudge CASE/NAME INDEX DELTA
    tensor CASE/NAME COUNT NORM [DOT x 8] ENTRY ...
"""
import numpy as np
import torch

import philox

DOTS, SAMPLES = 8, 64


def stream(name):
    """FNV-1a, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2 ** 64
    return value


def digest(seed, name, values, samples=SAMPLES):
    """Norm, dot products and entries of a float64 vector."""
    count = values.size
    numbers = [float(np.sqrt(np.sum(values * values)))]
    if count <= samples:
        return numbers + values.tolist()
    bits = philox.bits(seed, stream(name + "#signs"), count)
    for j in range(DOTS):
        signs = 1.0 - 2.0 * ((bits >> np.uint32(j)) & np.uint32(1)).astype(np.float64)
        numbers.append(float(np.dot(signs, values)))
    return numbers + values[philox.below(seed, stream(name + "#samples"), samples, count)].tolist()


class File:
    """One fixture file: cases and their results, in the order in which they are made."""

    def __init__(self):
        self.lines = [f"# Made by script/fixtures with torch {torch.__version__.split('+')[0]} in float64; "
                      "the format is told in tests/oracle/fixture.py"]

    def save(self, path):
        with open(path, "w", encoding="ascii") as file:
            file.write("\n".join(self.lines) + "\n")


def f32(value):
    """The nearest float32: what a setting becomes in the structs of the backend's table."""
    return float(np.float32(value))


class Case:
    """A named set of settings, its inputs and its results. Settings become attributes, real ones as float32."""

    def __init__(self, file, name, seed=1, **settings):
        self.file, self.name, self.seed, self.nudges = file, name, seed, {}
        words = []
        for key, value in settings.items():
            if isinstance(value, float):
                value = f32(value)
                words.append(f"{key}={value:.9g}")
            else:
                words.append(f"{key}={int(value) if isinstance(value, bool) else value}")
            setattr(self, key, value)
        file.lines.append(" ".join([f"case {name} seed={seed}"] + words))
        print(name, flush=True)

    def fill(self, name, shape, scale=1.0, offset=0.0):
        """A float64 tensor of numbers that float32 holds exactly, in the order of `shape`."""
        u = philox.uniform(self.seed, stream(f"{self.name}/{name}"), int(np.prod(shape))).astype(np.float64)
        values = (offset + scale * (2.0 * u - 1.0)).astype(np.float32)
        for index, delta in self.nudges.get(name, []):
            values[index] = np.float32(float(values[index]) + delta)
        values = values.astype(np.float64)
        return torch.from_numpy(values.reshape(shape))

    def fill_map(self, name, n, h, w, c, scale=1.0, offset=0.0):
        """Activations: made as (n, h, w, c), returned as PyTorch has them, (n, c, h, w)."""
        return self.fill(name, (n, h, w, c), scale, offset).permute(0, 3, 1, 2).contiguous()

    def bits(self, name, count):
        return philox.bits(self.seed, stream(f"{self.name}/{name}"), count)

    def integers(self, name, count, bound):
        return torch.from_numpy(
            philox.below(self.seed, stream(f"{self.name}/{name}"), count, bound).astype(np.int64))

    def nudge(self, name, index, delta):
        """From here on that element of that input is moved."""
        self.nudges.setdefault(name, []).append((index, delta))
        self.file.lines.append(f"nudge {self.name}/{name} {index} {delta!r}")

    def parameter(self, name, shape):
        """Parameters and running statistics of a net, by what the name and the shape say that they are. Nothing is 0
        or 1, so that no gradient hides."""
        if len(shape) >= 2:
            fan_in = int(np.prod(shape[1:]))
            return self.fill(name, shape, np.sqrt(6.0 / fan_in))
        if name.endswith(".running_var"):
            return self.fill(name, shape, 0.5, 1.0)
        if name.endswith(".weight"):
            return self.fill(name, shape, 0.5, 1.0)
        return self.fill(name, shape, 0.25)

    def store(self, name, values):
        values = torch.as_tensor(values, dtype=torch.float64).detach().reshape(-1).numpy()
        full = f"{self.name}/{name}"
        numbers = " ".join(f"{v:.14g}" for v in digest(self.seed, full, values, 0 if hasattr(self, "brief") else SAMPLES))
        self.file.lines.append(f"tensor {full} {values.size} {numbers}")

    def store_map(self, name, values):
        """Activations (n, c, h, w), digested as (n, h, w, c)."""
        self.store(name, values.permute(0, 2, 3, 1).contiguous())
