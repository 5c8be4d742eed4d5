#!/usr/bin/env python3
"""recollect against JAX, compiled by XLA, on the steps train_next and inversion of torch_peer.py, in the same turns.

    jax_peer.py --device cuda [--recollect PATH] [--steps train_next,inversion] [--size 32|64|224] [--json FILE]

jax_steps.py holds JAX's side. Needs jax, with its GPU plug-in on a GPU. XLA compiles a step for most of a minute, and
chooses kernels by the clock: JAX_COMPILATION_CACHE_DIR=FOLDER lets later runs begin at once.

Configurations: "scan" is XLA as it comes; "graph" asks it for one CUDA graph of the whole loop. At 224 px, where the
stem pools, "shifted" pools by the maximum of nine shifted maps instead of reduce_window. Memory is what the compiled
program holds: its arguments, its results and what it takes meanwhile.
"""
import argparse

import torch_peer

STEPS = ("train_next", "inversion")
GRAPH = ("--xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,CONDITIONAL,WHILE "
         "--xla_gpu_graph_min_graph_size=1")


def configuration(pool="window", flags=""):
    return {"pool": pool, "env": {"XLA_FLAGS": flags} if flags else {}}


CONFIGURATIONS = {"scan": configuration(), "graph": configuration(flags=GRAPH)}
POOLED = {"scan": configuration(), "shifted": configuration("shifted"),
          "shifted_graph": configuration("shifted", GRAPH)}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    torch_peer.add_options(parser, STEPS)
    parser.add_argument("--configurations", help="comma-separated (all): " + ", ".join(CONFIGURATIONS) +
                        "; at 224 px: " + ", ".join(POOLED))
    arguments = parser.parse_args()
    return torch_peer.choose(parser, arguments, "jax", POOLED if arguments.size == 224 else CONFIGURATIONS)


if __name__ == "__main__":
    torch_peer.run(parse_arguments())
