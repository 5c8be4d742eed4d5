"""The random numbers of src/base/rng.h in numpy, so that Python oracles work on identical inputs.

Element i of a stream is lane i % 4 of Philox4x32-10 with key = (seed low, seed high) and
counter = (block low, block high, stream low, stream high), block = i // 4.
"""
import numpy as np

MASK = np.uint64(0xFFFFFFFF)
SHIFT = np.uint64(32)


def _words(value):
    return np.uint64(value & 0xFFFFFFFF), np.uint64(value >> 32)


def philox(counter, key):
    """Ten rounds. counter: four uint64 arrays of 32-bit words; key: two 32-bit words. Returns four such arrays."""
    a, b, c, d = counter
    key0, key1 = key
    for _ in range(10):
        left, right = np.uint64(0xD2511F53) * a, np.uint64(0xCD9E8D57) * c
        a, b, c, d = (right >> SHIFT) ^ b ^ key0, right & MASK, (left >> SHIFT) ^ d ^ key1, left & MASK
        key0, key1 = (key0 + np.uint64(0x9E3779B9)) & MASK, (key1 + np.uint64(0xBB67AE85)) & MASK
    return a, b, c, d


def bits(seed, stream, n, first=0):
    """Elements first .. first+n-1 as uint32."""
    start, end = first // 4, (first + n + 3) // 4
    block = np.arange(start, end, dtype=np.uint64)
    stream_low, stream_high = _words(stream)
    counter = (block & MASK, block >> SHIFT, np.full_like(block, stream_low), np.full_like(block, stream_high))
    lanes = np.stack(philox(counter, _words(seed)), axis=1).reshape(-1)
    return lanes[first - 4 * start:][:n].astype(np.uint32)


def uniform(seed, stream, n, first=0):
    """float32 in [0, 1), the same bits as in C."""
    return (bits(seed, stream, n, first) >> np.uint32(8)).astype(np.float32) * np.float32(2.0 ** -24)


def below(seed, stream, n, bound, first=0):
    """Integers in [0, bound), the same as in C."""
    return ((bits(seed, stream, n, first).astype(np.uint64) * np.uint64(bound)) >> SHIFT).astype(np.uint32)


def normal(seed, stream, n, first=0):
    """float64 standard normals, equal to those in C to a few ulp."""
    start, end = first // 4 * 4, (first + n + 3) // 4 * 4
    raw = (bits(seed, stream, end - start, start) >> np.uint32(8)).astype(np.float64).reshape(-1, 2)
    radius = np.sqrt(-2.0 * np.log((raw[:, 0] + 0.5) * 2.0 ** -24))
    angle = 2.0 * np.pi * (raw[:, 1] * 2.0 ** -24)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[first - start:][:n]


def permutation(seed, stream, n):
    """A random order of 0 .. n-1, the same as in C; see rc_rng_permutation for the order of the draws."""
    out = list(range(n))
    drawn, position = [], 0
    for bound in range(n, 1, -1):
        while True:
            if position % 65536 == 0:
                drawn = bits(seed, stream, 65536, position).tolist()
            product = drawn[position % 65536] * bound
            position += 1
            if product & 0xFFFFFFFF >= 2 ** 32 % bound:
                break
        i, j = bound - 1, product >> 32
        out[i], out[j] = out[j], out[i]
    return np.array(out, dtype=np.uint32)
