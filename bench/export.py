#!/usr/bin/env python3
"""Every net that recollect can hold, exported and run by others: the onnx checker, ONNX Runtime, OpenCV's dnn, and
torchvision's modules with load_state_dict(strict=True). Weights are random, with running statistics drawn at random; the
reference backend says what is right. Prints a line for each net, and fails if one is off by more than 1e-4.

Needs onnx, onnxruntime, opencv-python, torch, torchvision and safetensors, efficientnet-lite-pytorch where it is there, and
`script/build ci recollect exported`.

usage: bench/export.py [--build FOLDER] [NET...]
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
import onnx
import onnxruntime
import torch
import torchvision
from safetensors import safe_open
from safetensors.torch import load_file

try:
    import efficientnet_lite_pytorch as lite
except ImportError:
    lite = None

MOST = 1e-4
# net: pixels, channels, classes. EfficientNet-Lite's module pads as its own size asks for, whatever the image has: ours
# differs from that by a multiple of 32, so that every map is even where its is.
NETS = {"resnet-small": (32, 3, 10), "resnet32": (32, 1, 100), "resnet32-abd": (32, 3, 100), "resnet18": (64, 3, 100),
        "resnet18-mammoth": (32, 3, 100), "cifar-resnet20": (32, 3, 10), "cifar-resnet32": (32, 3, 10),
        "cifar-resnet44": (32, 3, 10), "cifar-resnet56": (32, 3, 10), "torchvision-resnet18": (96, 3, 1000),
        "torchvision-resnet34": (96, 3, 1000), "torchvision-resnet50": (96, 3, 1000),
        "efficientnet-lite0": (96, 3, 1000), "efficientnet-lite1": (80, 3, 10), "efficientnet-lite2": (68, 3, 10),
        "efficientnet-lite3": (88, 3, 10), "efficientnet-lite4": (76, 3, 10), "mobilenet-v2": (96, 3, 1000)}


def softmax(logits):
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def torch_module(net, classes):
    """The published module; None: recollect's environment has none."""
    if net.startswith("torchvision-"):
        return getattr(torchvision.models, net.removeprefix("torchvision-"))(num_classes=classes)
    if net == "mobilenet-v2":
        return torchvision.models.mobilenet_v2(num_classes=classes)
    if net.startswith("efficientnet-") and lite is not None:
        return lite.EfficientNet.from_name(net, num_classes=classes)
    return None


def check(build, net, size, channels, classes, folder):
    model, graph, tensors = (str(Path(folder, name)) for name in ("model.safetensors", "g.onnx", "t.safetensors"))
    subprocess.run([f"{build}/bin/exported", net, str(size), str(channels), str(classes), "2", folder], check=True)
    subprocess.run([f"{build}/bin/recollect", "export", model, "--onnx", graph, "--torch", tensors], check=True,
                   stdout=subprocess.DEVNULL)
    pixels = np.fromfile(Path(folder, "pixels"), np.uint8).reshape(-1, size, size, channels)
    logits = np.fromfile(Path(folder, "logits"), np.float32).reshape(len(pixels), classes)
    image = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)).astype(np.float32) / 255
    off = {}

    def compare(name, found, probabilities=None):
        error = np.abs(found - logits).max() / np.abs(logits).max()
        if probabilities is not None:
            error = max(error, np.abs(probabilities - softmax(logits)).max())
        off[name] = error

    onnx.checker.check_model(onnx.load(graph), full_check=True)
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    probabilities, found = session.run(None, {"image": image})
    compare("onnxruntime", found, probabilities)
    opencv = cv2.dnn.readNetFromONNX(graph)
    opencv.setInput(image)
    found, probabilities = opencv.forward(["logits", "probabilities"])
    compare("opencv", found, probabilities)
    module = torch_module(net, classes)
    if module is not None:
        module.load_state_dict(load_file(tensors), strict=True)
        with safe_open(tensors, "pt") as file:
            facts = file.metadata()
        mean, std = (torch.tensor(json.loads(facts[f"recollect.{key}"])).view(1, -1, 1, 1) for key in ("mean", "std"))
        with torch.no_grad():
            compare("torch", module.eval()((torch.from_numpy(image) - mean) / std).numpy())
    return off


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/ci")
    parser.add_argument("nets", nargs="*", default=list(NETS))
    arguments = parser.parse_args()
    failures = 0
    for net in arguments.nets:
        with tempfile.TemporaryDirectory(prefix="recollect-export-") as folder:
            off = check(arguments.build, net, *NETS[net], folder)
        print(f"{net:22}", "  ".join(f"{name} {error:.1e}" for name, error in off.items()), flush=True)
        failures += not all(error < MOST for error in off.values())
    sys.exit(failures > 0)


main()
