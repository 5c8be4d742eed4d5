#!/usr/bin/env python3
"""Milliseconds an image that a published net takes on one core, forward alone: PyTorch, ONNX Runtime and recollect.

    predict_peer.py [--net efficientnet-lite0] [--size 224] [--batch 1] [--rounds 7] [--build build/release]

The three take turns, --rounds times; each turn is the median of several forward passes, and the table has the medians
of the turns. Wall clock and processor time are printed: the latter moves less on a machine that has other work.
PyTorch runs in both memory layouts, the faster one counts. ONNX Runtime gets the net as PyTorch exports it, with batch
normalisation folded by its own optimiser. bench/predict.c is recollect's side; it is compiled here. Needs torch, onnx,
onnxruntime, and torchvision or efficientnet-lite-pytorch, whichever has the net."""
import argparse
import os
import statistics
import subprocess
import tempfile
import time

LIBRARIES = "-lyaml -ljpeg -lpng16 -lz -ldl -lm -pthread".split()
OPTIONAL = ["webp", "tiff", "gif"]


def torch_net(name):
    import torch
    if name.startswith("efficientnet-lite"):
        from efficientnet_lite_pytorch import EfficientNet
        return EfficientNet.from_name(name).eval()
    import torchvision
    names = {"torchvision-resnet18": "resnet18", "torchvision-resnet34": "resnet34",
             "torchvision-resnet50": "resnet50", "mobilenet-v2": "mobilenet_v2"}
    torch.manual_seed(1)
    return getattr(torchvision.models, names[name])().eval()


def turn(forward, batch, repeats):
    """Medians of one turn: wall clock and processor time, milliseconds an image."""
    forward()
    wall, work = [], []
    for _ in range(repeats):
        began, worked = time.perf_counter(), time.process_time()
        forward()
        wall.append((time.perf_counter() - began) * 1e3 / batch)
        work.append((time.process_time() - worked) * 1e3 / batch)
    return statistics.median(wall), statistics.median(work)


def compiled(build, folder):
    """recollect's side, linked with the static library of that build."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    library = next(path for path in (os.path.join(build, place, "librecollect.a") for place in (".", "lib"))
                   if os.path.exists(path))
    program = os.path.join(folder, "predict")
    used = subprocess.run(["nm", "-u", library], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    marks = {"webp": "WebPDecode", "tiff": "TIFFOpen", "gif": "DGifOpen"}
    optional = ["-l" + name for name in OPTIONAL if marks[name] in used]
    subprocess.run(["cc", "-O2", "-std=c11", "-D_GNU_SOURCE", f"-I{root}/src", f"-I{root}/include",
                    f"{root}/bench/predict.c", library, "-o", program] + LIBRARIES + optional, check=True)
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--net", default="efficientnet-lite0")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--build", default="build/release")
    options = parser.parse_args()
    import onnxruntime
    import torch
    torch.set_num_threads(1)
    net, repeats = torch_net(options.net), max(3, 16 // options.batch)
    images = torch.randn(options.batch, 3, options.size, options.size)
    last = net.to(memory_format=torch.channels_last)
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        program, path = compiled(options.build, folder), os.path.join(folder, "net.onnx")
        torch.onnx.export(net, images, path, dynamo=False, opset_version=17, input_names=["images"])
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = settings.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
        array, images_last = images.numpy(), images.to(memory_format=torch.channels_last)
        plain = torch_net(options.net)

        def ours():
            line = subprocess.run([program, options.net, str(options.size), str(options.batch), str(repeats)],
                                  check=True, stdout=subprocess.PIPE, text=True).stdout
            return tuple(float(word) for word in line.split())
        sides = {"PyTorch": lambda: turn(lambda: plain(images), options.batch, repeats),
                 "PyTorch, channels last": lambda: turn(lambda: last(images_last), options.batch, repeats),
                 "ONNX Runtime": lambda: turn(lambda: session.run(None, {"images": array}), options.batch, repeats),
                 "recollect": ours}
        times = {name: [] for name in sides}
        for _ in range(options.rounds):
            for name, side in sides.items():
                times[name].append(side())
    print(f"{options.net}, {options.size} px, batch {options.batch}, one thread: ms an image, {options.rounds} rounds")
    for name, found in times.items():
        wall, work = ([pair[i] for pair in found] for i in (0, 1))
        print(f"{name:24} wall {statistics.median(wall):7.2f} ({min(wall):.2f} to {max(wall):.2f})   "
              f"processor {statistics.median(work):7.2f} ({min(work):.2f} to {max(work):.2f})")


if __name__ == "__main__":
    main()
