"""Files of torch.save, small and of every kind, for the reader of such files (tests/unit/test_torch_file.c)."""
import argparse
import collections
import pathlib

import torch

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "torch"


class Folder:
    """Stands for the files as one fixture: a list of them."""

    def __init__(self):
        self.sizes = []

    def save(self, path):
        path.write_text("".join(f"{name} {size}\n" for name, size in self.sizes))

    def write(self, name, value, **options):
        torch.save(value, FOLDER / name, **options)
        self.sizes.append((name, (FOLDER / name).stat().st_size))


def state_dict():
    """As nn.DataParallel names it."""
    return collections.OrderedDict([
        ("module.conv.weight", torch.arange(24, dtype=torch.float32).reshape(2, 3, 2, 2) * 0.25 - 3),
        ("module.bn.weight", torch.nn.Parameter(torch.ones(2))),
        ("module.bn.running_mean", torch.tensor([0.5, 1.5])),
        ("module.bn.running_var", torch.ones(2)),
        ("module.bn.num_batches_tracked", torch.tensor(7))])


def save_safetensors(path, tensors):
    """The format by hand, so that this needs no package."""
    import json
    header, data = {}, b""
    names = {torch.float32: "F32", torch.int64: "I64"}
    for name, tensor in tensors.items():
        raw = tensor.detach().numpy().tobytes()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def make():
    FOLDER.mkdir(exist_ok=True)
    folder, net = Folder(), state_dict()
    folder.write("archive.pth", net)
    folder.write("old.pth", {"epoch": 3, "accuracy": 91.5, "state_dict": net, "optimizer": {"lr": [0.1, None, True]}},
                 _use_new_zipfile_serialization=False)
    folder.write("protocol4.pth", {"seen": {1, 2}, "none": set(), "kept": frozenset([3]), "state_dict": net},
                 pickle_protocol=4)
    folder.write("old5.pth", {"epoch": 3, "model": net}, pickle_protocol=5, _use_new_zipfile_serialization=False)
    save_safetensors(FOLDER / "same.safetensors", net)
    special = torch.tensor([0.0, -0.0, 1.0, -2.5, 65504.0, 2.0 ** -24, 1.5 * 2.0 ** -15, 1.0 / 1024])
    whole = torch.arange(10, dtype=torch.float32)
    folder.write("types.pth", {
        "half": special.half(), "double": special.double(), "bfloat16": special.bfloat16(),
        "part": whole[4:].view(2, 3), "parameter": torch.nn.Parameter(whole[:4]), "whole": torch.arange(2),
        "flags": torch.tensor([True, False]), "infinite": torch.tensor([1.0, float("inf")])})
    folder.write("module.pth", torch.nn.Linear(2, 1))
    folder.write("module4.pth", torch.nn.Linear(2, 1), pickle_protocol=4)
    folder.write("namespace.pth", {"args": argparse.Namespace(lr=0.1), "weight": torch.ones(1)})
    folder.write("set.pth", {"seen": {1, 2}, "kept": frozenset(), "weight": torch.ones(1)})
    folder.write("columns.pth", {"weight": torch.arange(6.0).reshape(2, 3).t(), "every second": torch.arange(6.0)[1::2],
                                 "permuted": torch.arange(12.0).reshape(3, 2, 2).permute(2, 1, 0)})
    folder.write("empty.pth", {"epoch": 1, "note": "nothing"})
    return folder
