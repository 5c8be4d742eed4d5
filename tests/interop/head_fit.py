"""New rows of a head (cil/head_fit.h) beside scipy's search for the same minimum, and beside a closed form.

usage: head_fit.py HELPER     HELPER: see head_fit.c
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file
from scipy.optimize import brentq, minimize
from scipy.special import logsumexp

FOLDS = 4


def call(folder, penalty, margin, classes, **arrays):
    arrays = {name: np.asarray(a, np.int32 if name == 'label' else np.float32) for name, a in arrays.items()}
    save_file({**arrays, 'rule': np.array([penalty, margin], np.float32), 'classes': np.array([classes], np.int32)},
              folder / 'in')
    subprocess.run([sys.argv[1], folder / 'in', folder / 'out'], check=True)
    out = load_file(folder / 'out')
    return out['row'], out['fitted']


def loss(row, x, label, old_sum, weight, ridge):
    """What the header says is made small, and its gradient."""
    row = row.reshape(-1, x.shape[1])
    logits = np.hstack([x @ row.T, old_sum[:, None]])
    whole = logsumexp(logits, axis=1)
    target = np.zeros_like(logits)
    target[np.arange(len(x)), label] = 1  # -1 is the column of the old classes, the last one
    wrong = weight[:, None] * (np.exp(logits - whole[:, None]) - target)
    return (weight @ (whole - (logits * target).sum(1)) + ridge / 2 * (row ** 2).sum(),
            (wrong[:, :-1].T @ x + ridge * row).ravel())


def fit(x, label, old_sum, weight, ridge, classes):
    found = minimize(loss, np.zeros(classes * x.shape[1]), (x, label, old_sum, weight, ridge), 'L-BFGS-B', jac=True,
                     options={'maxiter': 5000, 'maxfun': 10000, 'ftol': 1e-15, 'gtol': 1e-10})
    return found.x.reshape(classes, -1), found.fun


def beside_scipy(folder):
    rng = np.random.default_rng(3)
    images, d, classes, penalty, margin = 90, 12, 4, np.float32(2e-3), np.float32(0.5)
    label = np.where(np.arange(images) % 9 == 8, -1, np.arange(images) % classes)
    x = rng.normal(size=(images, d)) + 2 * np.eye(classes + 1, d)[label]
    old_sum, weight = rng.normal(size=images), rng.uniform(0.5, 2, images) / images
    old_best = old_sum - rng.uniform(0.1, 1, images)
    x, old_sum, old_best, weight = (a.astype(np.float32).astype(float) for a in (x, old_sum, old_best, weight))
    row, (shift, median, value) = call(folder, penalty, margin, classes, feature=x, label=label, old_sum=old_sum,
                                       old_best=old_best, weight=weight)
    ridge = float(penalty) * (x[label >= 0] ** 2).sum(1).mean() / classes
    expected, least = fit(x, label, old_sum, weight, ridge, classes)
    # The library stops at 1e-5 of the first gradient. The ridge, the least curvature, says how far off that can be.
    left = 1e-5 * np.linalg.norm(loss(np.zeros(classes * d), x, label, old_sum, weight, ridge)[1])
    assert -1e-12 < value - least < left ** 2 / (2 * ridge) + 1e-12, (value, least)
    assert np.linalg.norm(row - expected) < 1.01 * left / ridge, (np.linalg.norm(row - expected), left / ridge)
    assert np.linalg.norm(row - expected) < 1e-3 * np.linalg.norm(expected)
    met, fold, margins = {}, np.zeros(images, int), []
    for i, k in enumerate(label):
        fold[i] = met.get(k, 0) % FOLDS
        met[k] = met.get(k, 0) + 1
    for out in range(FOLDS):
        used, tried = fold != out, (fold == out) & (label >= 0)
        part = fit(x[used], label[used], old_sum[used], weight[used] * weight.sum() / weight[used].sum(), ridge, classes)[0]
        margins += list((part[label[tried]] * x[tried]).sum(1) - old_best[tried])
    assert median > margin and shift == margin - median
    assert abs(median - np.median(margins)) < 0.01, (median, np.median(margins))  # folds are fitted less exactly


def beside_a_closed_form(folder):
    """Images of one class that are all the same x: the row is a x, and a penalty |x|^2 = 1 / (1 + exp(a |x|^2 - old))."""
    x, old, penalty = np.array([3, -1, 2.0]), 0.25, 0.125
    row, (shift, median, _) = call(folder, penalty, np.inf, 1, feature=[x] * 5, label=[0] * 5, old_sum=[old] * 5,
                                   old_best=[old] * 5, weight=[0.2] * 5)
    square = x @ x
    a = brentq(lambda a: a * penalty * square - 1 / (1 + np.exp(a * square - old)), 0, 10, xtol=1e-15)
    assert np.allclose(row, a * x, rtol=1e-4, atol=0), (row, a * x)
    assert shift == 0 and np.isnan(median)


with tempfile.TemporaryDirectory() as name:
    beside_scipy(pathlib.Path(name))
    beside_a_closed_form(pathlib.Path(name))
print('ok')
