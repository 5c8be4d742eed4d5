"""Files that recollect and Python write for each other: safetensors, models, JSON, CIFAR's pickles, idx, pictures.

usage: interop.py PROGRAM safetensors|data|json     PROGRAM: see interop.c
"""
import gzip
import io
import json
import pathlib
import pickle
import struct
import subprocess
import sys
import tarfile
import tempfile

import numpy as np
from PIL import Image
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))
import resize  # noqa: E402  what torchvision does, spelled out

TYPES = {"F32": np.float32, "F64": np.float64, "I32": np.int32, "I64": np.int64, "U8": np.uint8}
program = sys.argv[1]


def run(*arguments, code=0):
    """stdout, or stderr where it must fail."""
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{arguments}: code {done.returncode}: {done.stderr}"
    return done.stdout if code == 0 else done.stderr


def metadata_of(path):
    with safe_open(path, framework="numpy") as file:
        return file.metadata()


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


# ---- tensors --------------------------------------------------------------------------------------------------------

def ours_to_theirs(folder):
    path = folder / "ours.safetensors"
    run("write", path)
    i = np.arange(24)
    u8 = (i * 11 % 256).astype(np.uint8)
    f32 = ((i - 11) / 8).astype(np.float32)
    expected = {
        "bytes.odd": u8[:23],
        "f32": f32.reshape(2, 3, 1, 4),
        "f64": ((i - 11) / 1024).reshape(4, 6),
        "i32": ((i - 11) * 100003).astype(np.int32).reshape(2, 2, 6),
        "i64": (i - 11) * np.int64(10000000019),
        "scalar": f32[5].reshape(()),
        "nothing": np.zeros((0, 7), np.float32),
        'café "x"': u8[:12].reshape(3, 4),
    }
    found = load_file(path)
    assert found.keys() == expected.keys(), found.keys()
    for name, value in expected.items():
        assert same(found[name], value), f"{name}: {found[name]}, expected {value}"
    assert metadata_of(path) == {"maker": "recollect", "words": 'café "quoted"\nnew line'}


def theirs_to_ours(folder):
    path = folder / "theirs.safetensors"
    rng = np.random.default_rng(1)
    tensors = {
        "layer.weight": rng.standard_normal((5, 3, 3, 2)).astype(np.float32),
        "double": rng.standard_normal((2, 9)),
        "ids": rng.integers(-2**31, 2**31, 7).astype(np.int32),
        "large": rng.integers(-2**63, 2**63 - 1, (2, 2, 2)),
        "raw": rng.integers(0, 256, 13).astype(np.uint8),
        "scalar": np.array(np.pi, np.float32),
        "empty": np.zeros((3, 0), np.float64),
        "specials": np.array([np.nan, np.inf, -0.0, 1e-45], np.float32),
        "日本": np.ones(1, np.float32),
    }
    words = {"format": "np", "note": 'tab\t "quote" \\ ü', "empty": ""}
    save_file(tensors, path, metadata=words)
    found = json.loads(run("dump", path, *words, "missing"))
    assert found["metadata"] == {**words, "missing": None}, found["metadata"]
    assert found["tensors"].keys() == tensors.keys()
    for name, value in tensors.items():
        entry = found["tensors"][name]
        assert TYPES[entry["dtype"]] == value.dtype and tuple(entry["shape"]) == value.shape, (name, entry)
        assert bytes.fromhex(entry["bytes"]) == value.tobytes(), name
    save_file({"short": np.ones(3, np.uint16)}, path)
    message = run("dump", path, code=1)
    assert "theirs.safetensors" in message and "'short' has type U16" in message, message
    run("write", path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert "theirs.safetensors" in run("dump", path, code=1)
    path.write_bytes(whole + b"\0")
    assert "1 bytes after the last tensor" in run("dump", path, code=1)


def models(folder):
    ours, theirs, again = (folder / f"{name}.safetensors" for name in ("model", "package", "again"))
    run("model", ours)
    tensors, words = load_file(ours), metadata_of(ours)
    assert words["format"] == "recollect-model-1" and words["method"] == "cwd"
    assert json.loads(words["classes"]) == ["cat", "dog", 'äpfel "rot"', "x/y", "5"]
    assert json.loads(words["tasks"]) == [3, 2] and json.loads(words["image"]) == [14, 14, 3]
    assert np.allclose(json.loads(words["mean"]), [0.1, 0.2, 0.3]) and json.loads(words["config"])["net_width"] == "4"
    width = tensors["head.classifiers.0.weight"].shape[1]
    assert tensors["head.classifiers.0.weight"].shape == (3, width)
    assert tensors["head.classifiers.1.weight"].shape == (2, width)
    assert tensors["statistics.class_mean"].shape == (5, width)
    assert tensors["statistics.covariance"].shape == (width, width)
    stem = [t for name, t in tensors.items() if name.startswith("backbone.") and t.ndim == 4]
    assert len(stem) > 3 and stem[0].shape[2:] == (3, 3)
    # What the package writes, changed in one place, comes back from recollect bit for bit.
    tensors["head.classifiers.1.weight"][1, 2] = np.float32(1.25)
    save_file(tensors, theirs, metadata=words)
    run("resave", theirs, again)
    found = load_file(again)
    assert found.keys() == tensors.keys()
    assert all(same(found[name], tensors[name]) for name in tensors)
    assert metadata_of(again) == words
    # And a model that lacks something is refused by name.
    less = {name: t for name, t in tensors.items() if name != "statistics.covariance"}
    save_file(less, theirs, metadata=words)
    message = run("resave", theirs, again, code=1)
    assert "package.safetensors" in message and "'statistics.covariance' is missing" in message, message
    save_file(tensors, theirs, metadata={**words, "classes": '["a", "b", "c", "d", "\\u001b[2J"]'})
    message = run("resave", theirs, again, code=1)
    assert "name of class 4" in message, message


# ---- JSON -----------------------------------------------------------------------------------------------------------

def refuse(_):
    raise ValueError


def pairs(items):
    """An object whose keys differ."""
    if len({key for key, _ in items}) < len(items):
        raise ValueError
    return dict(items)


def integer(text):
    if not -2**63 <= int(text) < 2**63:
        raise ValueError
    return int(text)


def real(text):
    if float(text) in (float("inf"), float("-inf")):
        raise ValueError
    return float(text)


def strict(text):
    """The value, or None: what Python takes beyond RFC 8259 and what recollect refuses besides is none."""
    try:
        value = json.loads(text.decode(), object_pairs_hook=pairs, parse_constant=refuse, parse_int=integer,
                           parse_float=real)
        plain = json.dumps(value, ensure_ascii=False).encode()  # raises for half of a character
        return None if b"\\u0000" in plain else (value,)
    except ValueError:
        return None


def random_value(rng, depth, reals=True):
    kind = rng.integers(0, 8 if depth > 0 else 6)
    if kind == 0:
        return [None, True, False][rng.integers(0, 3)]
    if kind == 1:
        return int(rng.integers(-2**63, 2**63 - 1)) >> int(rng.integers(0, 64))
    if kind == 2 and reals:
        return float(np.ldexp(rng.standard_normal(), int(rng.integers(-1070, 1020))))
    if kind < 6:
        return "".join(chr(c) for c in rng.choice([1, 8, 10, 17, 34, 47, 92, 97, 127, 233, 0x20AC, 0x1F600],
                                                  rng.integers(0, 6)))
    if kind == 6:
        return [random_value(rng, depth - 1, reals) for _ in range(rng.integers(0, 5))]
    return {f"{i}{random_value(rng, 0)}": random_value(rng, depth - 1, reals) for i in range(rng.integers(0, 5))}


def texts(folder):
    rng = np.random.default_rng(5)
    files, expected = [], []

    def add(text):
        path = folder / f"{len(files)}.json"
        path.write_bytes(text)
        files.append(path)
        expected.append(strict(text))

    for i in range(200):
        value = random_value(rng, 4)
        text = json.dumps(value, ensure_ascii=i % 2 == 0, indent=[None, 3][i // 2 % 2]).encode()
        add(text)
        assert expected[-1] == (value,)
        for _ in range(4):  # damaged: bytes that JSON is made of, in wrong places
            at = int(rng.integers(0, len(text)))
            byte = rng.choice(list(b'{}[]:,"\\0129-+.eEuntrf \n\x00\x1f\xc3\xa9\xff'), 1).astype(np.uint8).tobytes()
            add(text[:at] + byte + text[at + int(rng.integers(0, 2)):])
    assert 200 < sum(e is not None for e in expected) < 700
    lines = run("json", 0, *files).split("\n")
    assert len(lines) == len(files) + 1
    for path, value, line in zip(files, expected, lines):
        found = (json.loads(line),) if line else None
        assert repr(found) == repr(value), f"{path.read_bytes()}: {found}, expected {value}"
    # Character for character, but for reals, which have other exponents.
    value = [random_value(rng, 4, reals=False) for _ in range(200)]
    files[0].write_text(json.dumps(value))
    assert run("json", 0, files[0]) == json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
    assert run("json", 2, files[0]) == json.dumps(value, ensure_ascii=False, indent=2) + "\n"


# ---- data -----------------------------------------------------------------------------------------------------------

def read_data(folder, path, size=0, shorter=0, channels=0):
    """The description, and the pixels of training and test images."""
    out = folder / "pixels"
    found = json.loads(run("data", path, size, shorter, channels, out))
    pixels = np.frombuffer(out.read_bytes(), np.uint8).reshape(-1, *found["shape"])
    return found, pixels


def cifar_batch(rng, count, classes, keys):
    planes = rng.integers(0, 256, (count, 3072)).astype(np.uint8)
    labels = [int(v) for v in rng.integers(0, classes, count)]
    batch = {b"data": planes, keys: labels, b"batch_label": b"testing batch 1 of 1",
             b"filenames": [b"picture_%d.png" % i for i in range(count)]}
    if keys == b"fine_labels":
        batch[b"coarse_labels"] = [v // 5 for v in labels]
    return batch, planes.reshape(count, 3, 32, 32).transpose(0, 2, 3, 1), labels


def cifar(folder):
    rng = np.random.default_rng(2)
    for protocol in (2, 3, 4, 5):
        for order in "CF":
            root = folder / f"cifar-{protocol}-{order}" / "cifar-100-python"
            root.mkdir(parents=True)
            names = [f"name {i}" for i in range(100)]
            images, labels = [], []
            for part, count in (("train", 7), ("test", 3)):
                batch, pixels, own = cifar_batch(rng, count, 100, b"fine_labels")
                batch[b"data"] = np.asarray(batch[b"data"], order=order)
                (root / part).write_bytes(pickle.dumps(batch, protocol))
                images.append(pixels)
                labels.append(own)
            (root / "meta").write_bytes(pickle.dumps({"fine_label_names": names, "coarse_label_names": ["x"]}, protocol))
            archive = folder / f"{protocol}{order}.tar.gz"
            with tarfile.open(archive, "w:gz") as tar:
                tar.add(root, "cifar-100-python")
            for path in (root, archive):
                found, pixels = read_data(folder, path)
                assert found["format"] == "cifar100" and found["names"] == names
                assert [found["train"], found["test"]] == labels
                assert np.array_equal(pixels, np.concatenate(images))
    root = folder / "cifar-10-batches-py"
    root.mkdir()
    images, labels = [], []
    for part in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        batch, pixels, own = cifar_batch(rng, 2, 10, b"labels")
        (root / part).write_bytes(pickle.dumps(batch, 2))
        images.append(pixels)
        labels += own
    found, pixels = read_data(folder, folder)  # in its usual place below the folder
    assert found["format"] == "cifar10" and found["train"] + found["test"] == labels and found["names"][3] == "3"
    assert np.array_equal(pixels, np.concatenate(images))
    (root / "data_batch_2").write_bytes(pickle.dumps({b"data": np.zeros((1, 3072)), b"labels": [0]}, 2))
    message = run("data", root, 0, 0, 0, folder / "pixels", code=1)
    assert "data_batch_2" in message and "unsigned bytes" in message, message


def idx(folder):
    rng = np.random.default_rng(3)
    root = folder / "idx"
    root.mkdir()
    images, labels = [], []
    for part, count in (("train", 6), ("t10k", 4)):
        pixels, own = rng.integers(0, 256, (count, 5, 5)).astype(np.uint8), rng.integers(0, 3, count).astype(np.uint8)
        (root / f"{part}-images-idx3-ubyte.gz").write_bytes(
            gzip.compress(struct.pack(">BBBBIII", 0, 0, 8, 3, count, 5, 5) + pixels.tobytes()))
        (root / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">BBBBI", 0, 0, 8, 1, count) + own.tobytes())
        images.append(pixels)
        labels.append([int(v) for v in own])
    found, pixels = read_data(folder, root)
    assert [found["train"], found["test"]] == labels and found["shape"] == [5, 5, 1]
    assert np.array_equal(pixels[..., 0], np.concatenate(images))


def pictures(folder):
    """Folders of pictures of many sizes, as torchvision's Resize and CenterCrop make them."""
    rng = np.random.default_rng(4)
    root = folder / "pictures"
    shapes = [(40, 40, 3), (50, 37, 3), (37, 50, 1), (240, 320, 3), (36, 91, 1), (33, 20, 3), (101, 75, 3)]
    originals = []
    for i, (h, w, c) in enumerate(shapes):
        image = Image.fromarray(rng.integers(0, 256, (h, w) if c == 1 else (h, w, c)).astype(np.uint8))
        where = root / "train" / f"class {i % 2}"
        where.mkdir(parents=True, exist_ok=True)
        image.save(where / f"{i}.png")
        originals.append(image)
    where = root / "val" / "class 1"
    where.mkdir(parents=True)
    buffer = io.BytesIO()
    originals[3].save(buffer, "JPEG", quality=90)
    (where / "photo.jpg").write_bytes(buffer.getvalue())
    order = [originals[i] for i in (0, 2, 4, 6, 1, 3, 5)] + [Image.open(buffer)]
    for channels, shorter, size in ((3, 36, 32), (1, 0, 24), (3, 256, 224)):
        found, pixels = read_data(folder, root, size, shorter, channels)
        assert found["names"] == ["class 0", "class 1"] and found["train"] == [0] * 4 + [1] * 3 and found["test"] == [1]
        for i, image in enumerate(order):
            fitted = resize.fit(image, shorter or size, size, channels, Image.Resampling.BILINEAR)
            expected = np.asarray(fitted).reshape(size, size, channels)
            worst = np.abs(pixels[i].astype(int) - expected).max()
            # Two builds of libjpeg may differ by one; so may what is resized from that.
            assert worst <= (1 if i == 7 else 0), f"picture {i} as {channels} x {size}: off by {worst}"


def main():
    tests = {"safetensors": (ours_to_theirs, theirs_to_ours, models), "data": (cifar, idx, pictures), "json": (texts,)}
    for test in tests[sys.argv[2]]:
        with tempfile.TemporaryDirectory() as name:
            test(pathlib.Path(name))
        print("passed:", test.__name__)


main()
