"""Exported models as other programs see them: the onnx checker and ONNX Runtime take the graph, with a batch of any size,
and give the logits and probabilities of the reference backend; a state_dict has the tensors of the model.

usage: exported.py RECOLLECT EXPORTED
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from safetensors import safe_open
from safetensors.numpy import load_file

# Of the largest logit. Float has 24 bits; errors of a hundred layers' sums add up to a few times that.
TOLERANCE = 5e-6
# net, pixels, channels, classes
CASES = [("resnet-small", 15, 3, 9), ("resnet32-abd", 12, 1, 9), ("cifar-resnet20", 16, 3, 10),
         ("torchvision-resnet18", 40, 3, 12), ("efficientnet-lite0", 36, 3, 9)]


def softmax(logits):
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def check_graph(path, pixels, logits, names):
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    image, = session.get_inputs()
    assert image.name == "image" and image.shape == ["batch", *pixels.shape[3:], *pixels.shape[1:3]], image
    assert [output.name for output in session.get_outputs()] == ["probabilities", "logits"]
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["recollect.classes"]) == names, metadata
    assert int(metadata["recollect.size"]) == pixels.shape[1], metadata
    x = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)).astype(np.float32) / 255
    for count in (len(x), 1):
        probabilities, found = session.run(None, {"image": x[:count]})
        error = np.abs(found - logits[:count]).max() / np.abs(logits).max()
        assert error < TOLERANCE, f"{path}: logits are off by {error:.1e}"
        assert np.abs(probabilities - softmax(logits[:count])).max() < 1e-4, path
    return error


def check_tensors(path, model, names):
    own, exported = load_file(model), load_file(path)
    with safe_open(path, "np") as file:
        metadata = file.metadata()
    assert metadata["format"] == "pt" and json.loads(metadata["recollect.classes"]) == names, metadata
    published = not any(name.startswith("backbone.") for name in exported)
    for name, value in own.items():
        if name.startswith("backbone."):
            assert np.array_equal(exported[name[len("backbone."):] if published else name], value), name
    normalisations = [name for name in exported if name.endswith(".running_mean")]
    for name in normalisations:
        assert exported[name.replace("running_mean", "num_batches_tracked")].dtype == np.int64, name
    parts = [own[f"head.classifiers.{task}.weight"] for task in range(2)]
    rows = np.concatenate(parts)
    if published:
        head, = (name for name in exported if exported[name].shape == rows.shape)
        assert np.array_equal(exported[head], rows) and head in ("fc.weight", "linear.weight", "_fc.weight"), head
        assert np.array_equal(exported[head.replace("weight", "bias")], own["head.bias"])
        return
    for task, part in enumerate(parts):
        assert np.array_equal(exported[f"head.classifiers.{task}.weight"], part), task
    biases = [exported[name] for task in range(2) if (name := f"head.classifiers.{task}.bias") in exported]
    assert np.array_equal(np.concatenate([*biases, []]), own.get("head.bias", [])), biases


def main():
    recollect, make = sys.argv[1:]
    for net, size, channels, classes in CASES:
        with tempfile.TemporaryDirectory(prefix="recollect-export-") as folder:
            model, graph, tensors = (str(Path(folder, name)) for name in ("model.safetensors", "g.onnx", "t.safetensors"))
            subprocess.run([make, net, str(size), str(channels), str(classes), "2", folder], check=True)
            subprocess.run([recollect, "export", model, "--onnx", graph, "--torch", tensors], check=True,
                           stdout=subprocess.DEVNULL)
            pixels = np.fromfile(Path(folder, "pixels"), np.uint8).reshape(-1, size, size, channels)
            logits = np.fromfile(Path(folder, "logits"), np.float32).reshape(len(pixels), classes)
            with safe_open(model, "np") as file:
                names = json.loads(file.metadata()["classes"])
            error = check_graph(graph, pixels, logits, names)
            check_tensors(tensors, model, names)
            print(f"ok: {net}, logits to {error:.1e}")


main()
