#!/usr/bin/env python3
"""Makes a Markdown table of what torch_peer.py and jax_peer.py wrote with --json: the best of each peer, recollect, and the
ratio to the best peer of the row.

    peers.py FILE...

A step and size may be in several files. Each ratio is that of the turns of one file: the peer that is fastest there, and
recollect beside it; the table takes, for every row, the turns in which the ratio is the smallest.
"""
import json
import sys

PEERS = {"torch": "PyTorch", "jax": "JAX/XLA"}


def add(rows, figures):
    """Adds the steps of one file to rows: (size, step, batch) -> {peer: best, "turns": [(ratio, ours)], ...}.

    >>> rows = {}
    >>> ours = {"ms": 2.0, "peak_bytes": 4 << 20}
    >>> def side(ms): return {"configuration": "c", "ms": ms, "peak_bytes": 8 << 20}
    >>> add(rows, {"size": 32, "batch": 128, "steps": [
    ...     {"name": "inversion", "torch": [side(5.0), side(6.0)], "recollect": ours}]})
    >>> add(rows, {"size": 32, "batch": 128, "steps": [
    ...     {"name": "inversion", "jax": [side(3.0)], "recollect": dict(ours, ms=1.5)},
    ...     {"name": "train_next", "jax": [], "dropped": {"scan": "no memory"}, "recollect": ours}]})
    >>> for line in table(rows): print(line)
    | step | PyTorch | JAX/XLA | recollect | ratio to the best | memory: PyTorch, JAX/XLA, recollect |
    | --- | --- | --- | --- | --- | --- |
    | `inversion`, 32 px, batch 128 | 5.00 ms (c) | 3.00 ms (c) | 1.50 ms | 2.00 | 8, 8, 4 MiB |
    | `train_next`, 32 px, batch 128 | - | - | 2.00 ms | - | -, -, 4 MiB |
    """
    for step in figures["steps"]:
        row = rows.setdefault((figures["size"], step["name"], figures["batch"]), {"turns": []})
        ours = step.get("recollect")
        row.setdefault("recollect", ours)
        for peer in PEERS:
            best = min(step.get(peer, []), key=lambda side: side["ms"], default=None)
            if best and best["ms"] < row.get(peer, {"ms": float("inf")})["ms"]:
                row[peer] = best
            if best and ours:
                row["turns"].append((best["ms"] / ours["ms"], ours))


def table(rows):
    """Lines of Markdown."""
    yield "| step | %s | recollect | ratio to the best | memory: %s, recollect |" % (
        " | ".join(PEERS.values()), ", ".join(PEERS.values()))
    yield "| --- " * (len(PEERS) + 4) + "|"
    for (size, name, batch), row in sorted(rows.items()):
        ratio, ours = min(row["turns"], key=lambda turn: turn[0], default=(None, row.get("recollect")))
        sides = [row.get(peer) for peer in PEERS]
        memory = ["%.0f" % (side["peak_bytes"] / 2**20) if side else "-" for side in sides + [ours]]
        yield "| `%s`, %d px, batch %d | %s | %s | %s | %s MiB |" % (
            name, size, batch,
            " | ".join("%.2f ms (%s)" % (side["ms"], side["configuration"]) if side else "-" for side in sides),
            "%.2f ms" % ours["ms"] if ours else "-", "%.2f" % ratio if ratio else "-", ", ".join(memory))


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    rows = {}
    for name in sys.argv[1:]:
        with open(name) as file:
            add(rows, json.load(file))
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
