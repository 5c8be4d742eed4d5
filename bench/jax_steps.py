#!/usr/bin/env python3
"""The steps of torch_steps.py in JAX, one step in one configuration per process. Started by jax_peer.py.

Written the way someone who wants XLA fast would write it: activations in bf16 and channels last, parameters, statistics
and losses in float32; BN folded into the convolutions of the frozen nets; both halves of a training batch in one pass,
each half with batch statistics of its own; RKD's angles from the Gram matrix; and all steps of a turn in one lax.scan, so
that the host starts one program for all of them. The stem of ResNet-18 pools by reduce_window, or as the maximum of nine
shifted maps, whose gradient XLA fuses.
"""
import functools
import json
import math
import os
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax                       # noqa: E402  (the allocator's setting is read on import)
import jax.numpy as jnp          # noqa: E402
from jax import lax              # noqa: E402

OLD, NEW, NOISE = 20, 20, 1000
BF16 = jnp.bfloat16
WIDTHS = {32: [16] * 6 + [32] * 5 + [64] * 5, 64: [16] * 6 + [32] * 5 + [64] * 5,
          224: [64, 64, 64, 128, 128, 256, 256, 512, 512]}
GENERATOR = {32: (128, [128, 64]), 64: (128, [128, 128, 64]), 224: (64, [64] * 5)}


# --- layers; maps are (n, h, w, c)

def convolve(x, w, stride=1):
    side = w.shape[0] // 2
    return lax.conv_general_dilated(x, w.astype(BF16), (stride, stride), [(side, side)] * 2,
                                    dimension_numbers=("NHWC", "HWIO", "NHWC"))


def moments(x, groups):
    """Mean and biased variance of every group of images, per channel: (groups, 1, 1, 1, c)."""
    x = x.astype(jnp.float32).reshape(groups, -1, *x.shape[1:])
    mean = x.mean((1, 2, 3), keepdims=True)
    return mean, (x * x).mean((1, 2, 3), keepdims=True) - mean * mean


def normalise(x, gamma, beta, groups=1, epsilon=1e-5):
    """By batch statistics. Returns the map and the statistics."""
    mean, variance = moments(x, groups)
    grouped = x.astype(jnp.float32).reshape(groups, -1, *x.shape[1:])
    y = (grouped - mean) * (gamma * lax.rsqrt(variance + epsilon)) + beta
    return y.reshape(x.shape).astype(BF16), (mean, variance)


def pool_window(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1),
                             ((0, 0), (1, 1), (1, 1), (0, 0)))


def pool_shifted(x):
    h, w = x.shape[1] // 2, x.shape[2] // 2
    x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-jnp.inf)
    maps = [x[:, i:i + 2 * h:2, j:j + 2 * w:2] for i in range(3) for j in range(3)]
    return functools.reduce(jnp.maximum, maps)


POOLS = {"window": pool_window, "shifted": pool_shifted}


# --- ResNet: blocks without ReLU after the addition, as in torch_steps.py

def make_resnet(key, size):
    widths, projected = WIDTHS[size], size == 224

    def layer(side, c_in, c_out):
        nonlocal key
        key, a, b = jax.random.split(key, 3)
        return {"w": math.sqrt(2 / (c_out * side * side)) * jax.random.normal(a, (side, side, c_in, c_out)),
                "gamma": jax.random.uniform(b, (c_out,), minval=0.3, maxval=0.7), "beta": jnp.zeros(c_out)}
    blocks = []
    for a, b in zip(widths, widths[1:]):
        block = {"first": layer(3, a, b), "second": layer(3, b, b)}
        if a != b and projected:
            block["shortcut"] = layer(1, a, b)
        blocks.append(block)
    return {"stem": layer(3, 3, widths[0]), "blocks": blocks}


def resnet(net, x, layer, pool):
    """Features (n, c). layer(parameters, x, stride) is a convolution with its normalisation."""
    x = jax.nn.relu(layer(net["stem"], x, 1))
    if "shortcut" in net["blocks"][2]:
        x = pool(x)
    for block in net["blocks"]:
        c_in, c_out = block["first"]["w"].shape[2:]
        stride = 2 if c_in != c_out else 1
        y = layer(block["second"], jax.nn.relu(layer(block["first"], x, stride)), 1)
        if "shortcut" in block:
            x = layer(block["shortcut"], x, stride)
        elif stride == 2:
            x = jnp.pad(x[:, ::2, ::2], ((0, 0), (0, 0), (0, 0), (0, c_out - c_in)))
        x = x + y
    return x.astype(jnp.float32).mean((1, 2))


def settle(net, size, pool):
    """Adds the running statistics that belong to the weights, as training would have left them."""
    images = jax.random.normal(jax.random.key(7), (16, size, size, 3), BF16)

    def layer(p, x, stride):
        y, (mean, variance) = normalise(convolve(x, p["w"], stride), p["gamma"], p["beta"])
        p["mean"], p["variance"] = mean.reshape(-1), variance.reshape(-1)
        return y
    resnet(net, images, layer, pool)
    return net


def fold(net):
    """BN of a frozen net goes into its weights."""
    def each(p):
        scale = p["gamma"] * lax.rsqrt(p["variance"] + 1e-5)
        return {"w": (p["w"] * scale).astype(BF16), "shift": (p["beta"] - p["mean"] * scale).astype(BF16)}
    return jax.tree.map(each, net, is_leaf=lambda node: isinstance(node, dict) and "w" in node)


def folded_layer(p, x, stride):
    return convolve(x, p["w"], stride) + p["shift"]


# --- generator

def make_generator(key, size):
    first, widths = GENERATOR[size]
    side = size >> len(widths)
    keys = iter(jax.random.split(key, len(widths) + 2))
    layers = [{"w": math.sqrt(2 / (9 * c_in)) * jax.random.normal(next(keys), (3, 3, c_in, c_out)),
               "b": jnp.zeros(c_out), "gamma": jnp.ones(c_out), "beta": jnp.zeros(c_out)}
              for c_in, c_out in zip([first] + widths, widths)]
    return {"linear": 0.03 * jax.random.normal(next(keys), (NOISE, side * side * first)),
            "bias": jnp.zeros(side * side * first), "gamma": jnp.ones(first), "beta": jnp.zeros(first),
            "layers": layers, "last": 0.05 * jax.random.normal(next(keys), (3, 3, 64, 3)), "last_bias": jnp.zeros(3)}


def generate(g, noise, size, frozen):
    """frozen: for sampling from a finished generator, whose BN is in its weights."""
    first, widths = GENERATOR[size]
    side = size >> len(widths)
    x = noise.astype(BF16) @ g["linear"].astype(BF16) + g["bias"].astype(BF16)
    x = x.reshape(-1, side, side, first)
    if not frozen:
        x, _ = normalise(x, g["gamma"], g["beta"])
    for p in g["layers"]:
        n, h, w, c = x.shape
        x = jnp.broadcast_to(x[:, :, None, :, None], (n, h, 2, w, 2, c)).reshape(n, 2 * h, 2 * w, c)
        x = convolve(x, p["w"]) + p["b"].astype(BF16)
        if not frozen:
            x, _ = normalise(x, p["gamma"], p["beta"], epsilon=0.8)
        x = jax.nn.leaky_relu(x, 0.2)
    x = jnp.tanh(convolve(x, g["last"]) + g["last_bias"].astype(BF16))
    return normalise(x, 1.0, 0.0)[0]


# --- the steps: each returns (frozen, state, step), and step(frozen, state) the next state and its loss

def cross_entropy(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


def angles(e):
    """<u_ij, u_ik> of all triples from the centred Gram matrix; see angles_gram in torch_steps.py."""
    e = e - e.mean(0)
    g = e @ e.T
    half = 0.5 * jnp.diagonal(g)[:, None]
    c = g - half
    off = ~jnp.eye(len(e), dtype=bool)
    r = jnp.where(off, lax.rsqrt(jnp.maximum(jnp.where(off, 2 * (half.T - c), 1.0), 1e-24)), 0.0)
    return (g[None] - (c[:, :, None] + c[:, None])) * (r[:, :, None] * r[:, None])


def distance(a, b):
    return jnp.abs(a - b).mean()


def train_next(size, batch, pool):
    """Task >= 2 of CwD: LCE on real images, HKD on dreams, RKD with trained projections, WAR on the head; SGD."""
    keys = jax.random.split(jax.random.key(1), 8)
    features = WIDTHS[size][-1]
    constants = {"teacher": fold(settle(make_resnet(keys[0], size), size, pool)),
                 "teacher_head": 0.1 * jax.random.normal(keys[1], (features, OLD)),
                 "dreamer": make_generator(keys[2], size),
                 "images": jax.random.normal(keys[3], (batch, size, size, 3), BF16),
                 "labels": jax.random.randint(keys[4], (batch,), OLD, OLD + NEW)}
    parameters = {"net": make_resnet(keys[5], size), "head": 0.1 * jax.random.normal(keys[6], (OLD + NEW, features)),
                  "project": [0.1 * jax.random.normal(k, (features, 2 * features)) for k in jax.random.split(keys[7])],
                  "bias": [jnp.zeros(2 * features) for _ in range(2)]}
    net = parameters["net"]
    layers = [net["stem"]] + [b[k] for b in net["blocks"] for k in ("first", "second", "shortcut") if k in b]
    running = [(jnp.zeros_like(q["gamma"]), jnp.ones_like(q["gamma"])) for q in layers]     # as a pass meets them
    alpha, beta = math.log2(NEW / 2 + 1), math.sqrt(OLD / NEW)
    weights = 0.5 * (1 + 1 / alpha) / beta, 0.15 * alpha * beta, 0.5 * alpha * beta, 0.1

    def losses(p, c, dreams, teacher_features, target):
        seen = []

        def layer(q, x, stride):
            y, statistics_of_halves = normalise(convolve(x, q["w"], stride), q["gamma"], q["beta"], groups=2)
            seen.append(statistics_of_halves)
            return y
        both = resnet(p["net"], jnp.concatenate((c["images"], dreams)), layer, pool)
        real, dreamt = both[:batch], both[batch:]
        lce = cross_entropy(real @ p["head"][OLD:].T, c["labels"] - OLD)
        hkd = distance(dreamt @ p["head"][:OLD].T, target)
        rkd = distance(angles(real @ p["project"][0] + p["bias"][0]),
                       angles(teacher_features @ p["project"][1] + p["bias"][1]))
        norm = jnp.sqrt((p["head"] ** 2).sum(1))
        war = jnp.abs(norm[:OLD] - norm[OLD:].mean()).sum() + jnp.abs(norm[OLD:] - norm[:OLD].mean()).sum()
        return sum(w * term for w, term in zip(weights, (lce, hkd, rkd, war))), seen

    def step(c, state):
        p, momentum, averages, count, key = state
        key, of_noise = jax.random.split(key)
        dreams = generate(c["dreamer"], jax.random.normal(of_noise, (batch, NOISE)), size, frozen=True)
        frozen = resnet(c["teacher"], jnp.concatenate((c["images"], dreams)), folded_layer, pool)
        target = frozen[batch:] @ c["teacher_head"]
        count = count.at[c["labels"]].add(1).at[target.argmax(1)].add(1)
        (loss, seen), gradient = jax.value_and_grad(losses, has_aux=True)(p, c, dreams, frozen[:batch], target)
        for half in range(2):       # real images first, then dreams
            averages = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new[half].reshape(-1), averages, seen)
        momentum = jax.tree.map(lambda m, g, w: 0.9 * m + g + 5e-4 * w, momentum, gradient, p)
        p = jax.tree.map(lambda w, m: w - 0.01 * m, p, momentum)
        return (p, momentum, averages, count, key), loss

    state = (parameters, jax.tree.map(jnp.zeros_like, parameters), running, jnp.zeros(OLD + NEW, jnp.int32),
             jax.random.key(2))
    return constants, state, step


def inversion(size, batch, pool):
    """Generator training against a frozen classifier: cross-entropy, diversity, BN statistics, DCE; Adam."""
    keys = jax.random.split(jax.random.key(3), 4)
    features = WIDTHS[size][-1]
    constants = {"classifier": settle(make_resnet(keys[0], size), size, pool),
                 "head": 0.1 * jax.random.normal(keys[1], (features, OLD)),
                 "mean": jax.random.normal(keys[2], (OLD, features)), "cov": jnp.eye(features)}
    parameters = make_generator(keys[3], size)

    def dce(c, h, labels, run_mean, run_cov, seen):
        """Moving averages start once every old class has been dreamt at least once."""
        average = seen.all()
        one_hot = jax.nn.one_hot(labels, OLD)
        count = one_hot.sum(0)
        present = count > 0
        mean = one_hot.T @ h / jnp.maximum(count, 1)[:, None]
        residual = h - mean[labels]
        residual = residual - residual.mean(0)
        cov = residual.T @ residual / (batch - 1)
        mean = jnp.where(average, 0.9 * run_mean + 0.1 * mean, mean)
        mean = jnp.where(present[:, None], mean, run_mean)
        cov = jnp.where(average, 0.9 * run_cov + 0.1 * cov, cov)
        loss = jnp.linalg.norm((c["mean"] - mean) * present[:, None]) + jnp.linalg.norm(c["cov"] - cov)
        return loss, (mean, cov, seen | present)

    def losses(g, c, noise, averages):
        terms = []

        def layer(p, x, stride):
            raw = convolve(x, p["w"], stride)
            mean, variance = (value.reshape(-1) for value in moments(raw, 1))
            v = variance + 1e-8
            terms.append((jnp.log(v / (p["variance"] + 1e-8)) - 1 +
                          (p["variance"] + (p["mean"] - mean) ** 2 + 1e-8) / v).mean())
            scale = p["gamma"] * lax.rsqrt(p["variance"] + 1e-5)
            return raw * scale.astype(BF16) + (p["beta"] - p["mean"] * scale).astype(BF16)
        h = resnet(c["classifier"], generate(g, noise, size, frozen=False), layer, pool)
        logits = h @ c["head"]
        labels = lax.stop_gradient(logits).argmax(1)
        p = jax.nn.softmax(logits).mean(0)
        diversity = 1 + (p * jnp.log(p + 1e-6)).sum() / math.log(OLD)
        consistency, averages = dce(c, h, labels, *averages)
        loss = (cross_entropy(logits / 1000, labels) + diversity + 50 * 0.5 * sum(terms) / len(terms) +
                0.05 * consistency)
        return loss, averages

    def step(c, state):
        g, first, second, averages, count, key = state
        key, of_noise = jax.random.split(key)
        noise = jax.random.normal(of_noise, (batch, NOISE))
        (loss, averages), gradient = jax.value_and_grad(losses, has_aux=True)(g, c, noise, averages)
        averages = jax.tree.map(lax.stop_gradient, averages)
        count = count + 1
        first = jax.tree.map(lambda m, d: 0.9 * m + 0.1 * d, first, gradient)
        second = jax.tree.map(lambda v, d: 0.999 * v + 0.001 * d * d, second, gradient)
        rate = 1e-3 / (1 - 0.9 ** count)
        root = jnp.sqrt(1 - 0.999 ** count)
        g = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) / root + 1e-8), g, first, second)
        return (g, first, second, averages, count, key), loss

    first, second = (jax.tree.map(jnp.zeros_like, parameters) for _ in range(2))     # donated, so not one for both
    averages = (jnp.zeros((OLD, features)), jnp.zeros((features, features)), jnp.zeros(OLD, bool))
    return constants, (parameters, first, second, averages, jnp.zeros((), jnp.float32), jax.random.key(4)), step


STEPS = {"train_next": train_next, "inversion": inversion}


# --- the process

SCAN = {32: 64, 64: 32, 224: 10}        # steps in one program: about a quarter of a second on a large GPU


def build_step(job):
    """Returns (turn, bytes): turn() runs one program and returns milliseconds of one of its steps."""
    constants, state, step = STEPS[job["step"]](job["size"], job["batch"], POOLS[job["pool"]])
    length = SCAN[job["size"]] if job["device"] == "cuda" else 1

    def steps(constants, state):
        return lax.scan(lambda s, _: step(constants, s), state, length=length)
    program = jax.jit(steps, donate_argnums=1).lower(constants, state).compile()

    def turn():
        nonlocal state
        began = time.perf_counter()
        state, losses = program(constants, state)
        losses.block_until_ready()
        taken = 1e3 * (time.perf_counter() - began) / length
        if not jnp.isfinite(losses).all():
            raise SystemExit("%s: a loss is not finite" % job["step"])
        return taken
    taken = program.memory_analysis()
    return turn, (taken.argument_size_in_bytes + taken.output_size_in_bytes - taken.alias_size_in_bytes +
                  taken.temp_size_in_bytes)


def main():
    """Speaks the protocol of torch_steps.py."""
    protocol = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    job = json.loads(sys.argv[1])
    if (jax.default_backend() == "gpu") != (job["device"] == "cuda"):
        raise SystemExit("JAX computes on %s, %s was asked for" % (jax.default_backend(), job["device"]))
    sys.stdin.readline()   # "prepare"
    turn, peak_bytes = build_step(job)
    turn()
    protocol.write(json.dumps({"version": jax.__version__, "note": job["pool"], "fp32_error": None}) + "\n")
    for line in sys.stdin:
        cpu, count = time.process_time(), int(line)
        milliseconds = [turn() for _ in range(count)]
        cpu = 1e3 * (time.process_time() - cpu) / count
        protocol.write(json.dumps({"ms": milliseconds, "cpu_ms": cpu, "peak_bytes": peak_bytes}) + "\n")


if __name__ == "__main__":
    main()
