"""Class orders as Python and numpy shuffle them, in full. Lines: python|numpy SEED CLASSES CLASS..."""
import random

import numpy as np


class File:
    def __init__(self):
        self.lines = ["# Made by script/fixtures; told in tests/oracle/class_orders.py"]

    def add(self, kind, seed, order):
        self.lines.append(" ".join(str(word) for word in [kind, seed, len(order)] + order))

    def save(self, path):
        path.write_text("\n".join(self.lines) + "\n", encoding="ascii")


def make():
    file = File()
    for classes in (100, 200, 10, 1, 33):
        for seed in range(3):
            order = list(range(classes))
            random.seed(seed)
            random.shuffle(order)
            file.add("python", seed, order)
    for classes in (100, 10, 1, 33):
        order = list(range(classes))
        np.random.seed(1993)
        np.random.shuffle(order)
        file.add("numpy", 1993, order)
    return file
