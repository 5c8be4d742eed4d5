"""The analyses beside scipy and scikit-learn: densities, divergences, and the classifiers of the ledger.

usage: analysis.py HELPER PROGRAM     HELPER: see analysis.c
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file
from scipy.special import logsumexp
from scipy.stats import gaussian_kde, multivariate_normal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KernelDensity, NearestCentroid

helper, program = sys.argv[1:3]


def call(*arguments):
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arguments}: code {done.returncode}: {done.stderr}"
    return done.stdout


def tied(x, labels, at):
    """log density of the tied mixture of x, as the paper writes it."""
    classes = np.unique(labels)
    means = np.array([x[labels == k].mean(0) for k in classes])
    shares = np.array([(labels == k).mean() for k in classes])
    rest = x - means[np.searchsorted(classes, labels)]
    covariance = rest.T @ rest / len(x)
    each = [multivariate_normal(m, covariance).logpdf(at) + np.log(s) for m, s in zip(means, shares)]
    return logsumexp(each, axis=0)


def densities(folder):
    rng = np.random.default_rng(5)
    for n, m, d in ((300, 200, 5), (500, 70, 16)):
        mix = rng.normal(size=(d, d))
        p = (rng.normal(size=(n, d)) @ mix).astype(np.float32)
        q = (1.2 * rng.normal(size=(m, d)) @ mix + 0.3).astype(np.float32)
        labels = {"p": rng.integers(0, 7, n).astype(np.int32), "q": rng.choice([0, 2, 3, 8], m).astype(np.int32)}
        save_file({"p": p, "q": q, "p.labels": labels["p"], "q.labels": labels["q"]}, folder / "in.safetensors")
        call(helper, "densities", folder / "in.safetensors", folder / "out.safetensors")
        ours = load_file(folder / "out.safetensors")
        for name, x in (("p", p), ("q", q)):
            x, at = x.astype(float), p.astype(float)
            theirs = {
                "scott": gaussian_kde(x.T).logpdf(at.T),
                "isotropic": KernelDensity(bandwidth="scott", rtol=1e-9).fit(x).score_samples(at),
                "tied": tied(x, labels[name], at),
            }
            for kind, values in theirs.items():
                worst = np.abs(ours[f"{kind}.{name}"] - values).max()
                # Residuals are floats, and covariances of them have a relative error near 1e-7.
                assert worst < 1e-4, f"{kind} density of {name}, d = {d}: off by {worst}"
        for kind in ("scott", "isotropic", "tied"):
            log_r = ours[f"{kind}.q"] - ours[f"{kind}.p"]
            expected = [(-log_r).mean(), (log_r**2).mean() / 2, (np.expm1(log_r) - log_r).mean()]
            assert np.allclose(ours[f"{kind}.divergence"], expected, rtol=1e-9), f"{kind}: {expected}"


def accuracy(said, labels):
    return 100 * (said == labels).mean()


def lda_with(means, covariance, x):
    means = means.astype(float)
    weight = np.linalg.solve(covariance.astype(float), means.T)
    scores = x @ weight - 0.5 * (means.T * weight).sum(0)
    return np.where(np.isnan(scores), -np.inf, scores).argmax(1)  # a class without dreams has no mean


def expected_of(log_r):
    return -log_r.mean()


def error_of(log_r):
    return log_r.std(ddof=1) / np.sqrt(len(log_r))


def kernels_without(x, covariance):
    """log density of kernels of x at each of x, without that one."""
    lower = np.linalg.cholesky(covariance)
    white = np.linalg.solve(lower, x.T).T
    terms = -0.5 * ((white[:, None] - white[None]) ** 2).sum(2)
    np.fill_diagonal(terms, -np.inf)
    scale = -0.5 * x.shape[1] * np.log(2 * np.pi) - np.log(np.diag(lower)).sum()
    return logsumexp(terms, axis=1) - np.log(len(x) - 1) + scale


def consistency(folder):
    """D_KL at the real features, of a row of analyze dkl, from the features themselves."""
    told = json.loads(call(program, "analyze", "dkl", folder / "run", "--threads", 1, "--samples", 500, "--json"))
    [one] = told["methods"]
    row = one["rows"][2]
    assert row["losses"] == "ce + stat + div" and one["images"] == one["dreams"] == 240
    call(helper, "dreams", folder / "run", "cwd", 1, folder / "d.safetensors")
    f = load_file(folder / "d.safetensors")
    x, q, y, labels = f["train"].astype(float), f["dreams"].astype(float), f["train.labels"], f["dreams.labels"]
    scott = len(x) ** (-2 / (x.shape[1] + 4))
    isotropic = KernelDensity(bandwidth="scott", rtol=1e-9).fit(q).score_samples(x)
    scale = x.std(0)  # changes neither of the first two; but scipy takes tiny variances for none
    log_r = {
        "gaussian": tied(q / scale, labels, x / scale) - tied(x / scale, y, x / scale),
        "kde_scott": gaussian_kde((q / scale).T).logpdf((x / scale).T)
        - kernels_without(x / scale, scott * np.cov((x / scale).T)),
        "kde_isotropic": isotropic - kernels_without(x, scott * np.eye(x.shape[1])),
    }
    assert row["empty_classes"] == 6 - len(np.unique(labels))
    for kind, values in log_r.items():
        ours = row[kind]["real"]
        assert ours["samples"] == 240 and row[kind]["drawn"]["samples"] == 500 and row[kind]["ridge"] == 0
        for name, expected in (("value", expected_of(values)), ("error", error_of(values))):
            assert np.isclose(ours["k1"][name], expected, rtol=1e-3), f"{kind}: {ours}, expected {expected}"
    drawn, values = row["gaussian"]["drawn"]["k1"], log_r["gaussian"]  # both estimate the same
    assert abs(drawn["value"] - expected_of(values)) < 5 * (drawn["error"] + error_of(values))


def ledger(folder):
    call(program, "run", "demo", "--data", "procedural:10", "--out", folder / "run", "--threads", 1, "--method", "cwd",
         "--set", "images_per_class=40", "--set", "epochs=3", "--set", "refine_epochs=1", "--set", "inversion_steps=10",
         "--set", "net_width=8", "--set", "weight_decay=0.01")
    told = json.loads(call(program, "analyze", "ledger", folder / "run", "--threads", 1, "--json"))
    results = json.loads((folder / "run" / "cwd" / "results.json").read_text())
    [one] = told["methods"]
    assert one["method"] == "cwd" and len(one["tasks"]) == 3
    moved = None  # means and covariance, carried from task to task
    for number, task in enumerate(one["tasks"], 1):
        call(helper, "features", folder / "run", "cwd", number, folder / "f.safetensors")
        f = load_file(folder / "f.safetensors")
        x, y, test, truth = (f[k].astype(float) if f[k].ndim > 1 else f[k]
                             for k in ("train", "train.labels", "test", "test.labels"))
        classes = task["classes"]
        one_image = 100 / len(truth)
        lda = LinearDiscriminantAnalysis(solver="lsqr", priors=np.ones(classes) / classes).fit(x, y)
        scale = x.std(0)
        probe = LogisticRegression(C=1, max_iter=5000).fit((x - x.mean(0)) / scale, y)
        means = np.array([x[y == k].mean(0) for k in range(classes)])
        first = 0 if moved is None else len(moved[0])
        own = x[y >= first] - means[y[y >= first]]
        own_covariance = own.T @ own / len(own)
        if moved is not None:
            before, after = previous, x[y >= first]
            centred = before - before.mean(0)
            scatter = centred.T @ centred
            a = np.linalg.solve(scatter + 1e-3 * np.trace(scatter) / len(scatter) * np.eye(len(scatter)),
                                centred.T @ (after - after.mean(0))).T
            rest = after - after.mean(0) - centred @ a.T
            old = (moved[0] - before.mean(0)) @ a.T + after.mean(0)
            covariance = a @ moved[1] @ a.T + rest.T @ rest / len(rest)
            share = first / classes
            moved = np.vstack([old, means[first:]]), share * covariance + (1 - share) * own_covariance
        else:
            moved = means, own_covariance
        expected = {
            "head": results["accuracy"][number - 1],
            "nearest": accuracy(NearestCentroid().fit(x, y).predict(test), truth),
            "true": accuracy(lda.predict(test), truth),
            "stored": accuracy(lda_with(f["stored.mean"], f["stored.covariance"], test), truth),
            "moved": accuracy(lda_with(*moved, test), truth),
            "probe": accuracy(probe.predict((test - x.mean(0)) / scale), truth),
        }
        for row, value in expected.items():
            ours = task["accuracy"][row]
            allowed = 3 * one_image if row == "probe" else 1.01 * one_image  # images on the border between two classes
            assert abs(ours - value) <= allowed, f"task {number}, {row}: {ours}, expected {value}"
        ends = np.cumsum([6, 2, 2])[:number]
        nearest = NearestCentroid().fit(x, y).predict(test)
        distance = np.linalg.norm(moved[0] - means, axis=1) / np.linalg.norm(means, axis=1)
        stored = np.linalg.norm(f["stored.mean"] - means, axis=1) / np.linalg.norm(means, axis=1)
        for of, (begin, end) in enumerate(zip(np.r_[0, ends[:-1]], ends)):
            of_task = (truth >= begin) & (truth < end)
            for row, said in (("nearest", nearest), ("true", lda.predict(test))):
                ours, value = task["by_task"][row][of], accuracy(said[of_task], truth[of_task])
                assert abs(ours - value) <= 101 / of_task.sum(), f"task {number}, {row}, {of + 1}: {ours}, {value}"
            for key, values in (("moved_off", distance), ("stored_off", stored)):
                known = values[begin:end][~np.isnan(values[begin:end])]
                expected_off = 100 * known.mean() if len(known) else None
                ours = task[key][of]
                same = ours is expected_off or np.isclose(ours, expected_off, rtol=1e-3, atol=1e-4)
                assert same, f"{key}: {ours}, expected {expected_off}"
        assert all(len(task[key]) == number for key in ("moved_off", "stored_off"))
        if first > 0:
            assert np.isclose(task["old_stored_off"], 100 * np.nanmean(stored[:first]), rtol=1e-3)
            assert np.isclose(task["old_moved_off"], 100 * np.nanmean(distance[:first]), rtol=1e-3)
        assert task["accuracy"]["joint"] is None
        if number < 3:  # the next task's images, by this task's net: the features of the whole data set
            call(helper, "next", folder / "run", "cwd", number, folder / "n.safetensors")
            previous = load_file(folder / "n.safetensors")["train"].astype(float)


def main():
    with tempfile.TemporaryDirectory() as name:
        for test in (densities, ledger, consistency):  # the last looks at the run of the one before
            test(pathlib.Path(name))
            print("passed:", test.__name__)


main()
