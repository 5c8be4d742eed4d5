"""Differential fuzzing: the same bytes to this library and to what everyone else reads such files with: safetensors,
tarfile, Pillow, PyYAML. A finding is a file that the library takes and the other refuses, or of which they make different
things. The library may refuse what the other takes: it is stricter. docs/testing.md lists what may differ besides.

usage: differ.py DIFFER FUZZ_TARGET KIND CORPUS [COUNT [SEED [FOLDER]]]
   changes each file of the corpus COUNT times with the target's mutator and compares; findings are kept in FOLDER"""

import gzip
import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import warnings
import zlib

BATCH = 200
REFUSED, UNKNOWN = object(), object()


# ---- the others: what they make of the bytes, in the form of differ.c, or REFUSED ---------------------------------------
def other_safetensors(data):
    import safetensors
    try:
        tensors = safetensors.deserialize(data)
    except Exception: # whatever Rust makes of it
        return REFUSED
    return sorted(({"name": name.encode().hex()[:1022], "dtype": t["dtype"], "shape": t["shape"],
                    "crc": zlib.crc32(bytes(t["data"]))} for name, t in tensors), key=lambda t: t["name"])


def other_tar(data):
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz" if data[:2] == b"\x1f\x8b" else "r:") as archive:
            found = []
            for member in archive:
                if member.isreg():
                    content = archive.extractfile(member).read()
                    if len(content) != member.size:
                        return REFUSED
                    name = member.name.encode("utf-8", "surrogateescape").strip(b"/").hex()
                    found.append({"name": name, "size": member.size, "crc": zlib.crc32(content)})
            return found
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error, OverflowError):
        return REFUSED


def other_picture(data, damaged=False):
    from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError
    Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES = None, damaged
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data)) as image:
                if image.width * image.height > 1 << 20:
                    return REFUSED
                mode = image.mode
                image = ImageOps.exif_transpose(image)
                if mode.startswith("I;16") or mode == "I":
                    image = image.point(lambda value: value / 256).convert("L")
                image = image.convert("RGB")
                return {"h": image.height, "w": image.width, "mode": mode, "pixels": list(image.tobytes()[:4096])}
    except UnidentifiedImageError:
        return UNKNOWN if data[:2] == b"\xff\xd8" else REFUSED # Pillow reads the markers of JPEG itself, libjpeg is more patient
    except Exception: # Pillow raises nearly everything
        return REFUSED


def other_config(data):
    import yaml
    try:
        return yaml.safe_load(data)
    except yaml.scanner.ScannerError as error:
        return UNKNOWN if b"\t" in data and "\\t" in str(error) else REFUSED # libyaml takes tabs inside of plain texts
    except yaml.constructor.ConstructorError:
        return UNKNOWN # a text such as '<<' or one that looks like a date: here it is a text
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError):
        return REFUSED


# ---- what may differ (docs/testing.md has the list) -----------------------------------------------------------------
def is_plain_tar(data):
    """Are all headers of the kind whose meaning nobody doubts? Regular files alone, a prefix in ustar alone, and numbers in
    the fields that the library does not read."""
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return False
    at, members = 0, 0
    while at + 512 <= len(data) and any(data[at:at + 512]):
        header = data[at:at + 512]
        numbers = [header[first:end].strip(b" \0") for first, end in ((100, 108), (108, 116), (116, 124), (124, 136), (136, 148))]
        name, prefix = header[:100].split(b"\0")[0], header[345:500].split(b"\0")[0]
        if (header[156:157] not in b"0\0" or not name or name.endswith(b"/") or (prefix and header[257:263] != b"ustar\0") or
                not all(re.fullmatch(b"[0-7]*", number) for number in numbers)):
            return False
        at += 512 + (int(numbers[3] or b"0", 8) + 511) // 512 * 512
        members += 1
    return members > 0


def close(ours, theirs):
    """JPEG, WebP and TIFF of other versions of their libraries: a value of 255 may be off by a few."""
    return len(ours) == len(theirs) and all(abs(a - b) <= 3 for a, b in zip(ours, theirs))


def same_value(ours, theirs):
    """Lists are one text here. A number with a zero before it is a text for PyYAML, and some texts are numbers, dates or
    truth values in YAML 1.1."""
    if isinstance(theirs, list):
        theirs = ", ".join(str(value) for value in theirs)
    if isinstance(ours, list):
        text = str(theirs)
        return re.findall(r"\d+", str(ours)) == re.findall(r"\d+", text) and text.count("[") == text.count("]")
    if isinstance(ours, bool):
        return str(theirs).lower() in (("true", "yes", "on", "1") if ours else ("false", "no", "off", "0"))
    if isinstance(ours, (int, float)) and not isinstance(ours, bool):
        try:
            return math.isclose(ours, float(theirs), rel_tol=1e-6)
        except (TypeError, ValueError, OverflowError):
            return False
    return str(ours) == str(theirs) or theirs is None or isinstance(theirs, (int, float))


class Unequal(Exception):
    """What is different."""


def compare_safetensors(ours, theirs, data):
    if theirs is REFUSED:
        raise Unequal("taken, refused by safetensors")
    if sorted(ours, key=lambda t: t["name"]) != theirs:
        raise Unequal("other tensors than safetensors finds")


def compare_tar(ours, theirs, data):
    if not is_plain_tar(data):
        return
    if theirs is REFUSED:
        raise Unequal("taken, refused by tarfile")
    ours = [dict(m, name=bytes.fromhex(m["name"]).strip(b"/").hex()) for m in ours]
    if ours != theirs:
        raise Unequal("other members than tarfile finds")


def without_wrong_chunks(data):
    """Of PNG: chunks that a reader may pass over, where their checksum is wrong. libpng passes over them."""
    kept, at = data[:8], 8
    while at + 12 <= len(data):
        length = int.from_bytes(data[at:at + 4], "big")
        chunk = data[at:at + 12 + length]
        optional, right = len(chunk) > 8 and chunk[4] & 32, zlib.crc32(chunk[4:-4]) == int.from_bytes(chunk[-4:], "big")
        kept, at = kept + (b"" if optional and not right else chunk), at + 12 + length
    return kept


def has_odd_colours(data):
    """Of BMP: more colours than there can be, or channels in other bits than anybody writes."""
    return data[:2] == b"BM" and (int.from_bytes(data[46:50], "little") > 256 or data[30:34] == b"\3\0\0\0")


def is_part(data):
    """Of GIF: the first frame does not cover the picture."""
    at = 13 + (3 << (data[10] & 7) + 1 if data[10] & 128 else 0)
    while data[at:at + 1] == b"!":
        at += 2
        while data[at:at + 1] not in (b"\0", b""):
            at += 1 + data[at]
        at += 1
    return data[at + 1:at + 5] != b"\0\0\0\0" or data[at + 5:at + 9] != data[6:10]


def compare_picture(ours, theirs, data):
    if theirs is REFUSED and data[:2] == b"\xff\xd8": # what follows the last row is not read
        theirs = other_picture(data, damaged=True)
    if theirs is REFUSED and data[:4] == b"\x89PNG":
        theirs = other_picture(without_wrong_chunks(data))
    if theirs is UNKNOWN:
        return
    if theirs is REFUSED and (data[:4] in (b"RIFF", b"II*\0", b"MM\0*", b"GIF8") or has_odd_colours(data)):
        return # other libraries with other checks
    if theirs is REFUSED:
        raise Unequal("taken, refused by Pillow")
    if (ours["h"], ours["w"]) != (theirs["h"], theirs["w"]):
        raise Unequal(f"{ours['h']} x {ours['w']}, Pillow has {theirs['h']} x {theirs['w']}")
    if data[:2] in (b"II", b"MM") and theirs["mode"] == "P" or data[:3] == b"GIF" and is_part(data):
        return # palettes of 8 bits, which libtiff knows; what lies around a frame has the colour of the background
    if not close(ours["pixels"], theirs["pixels"]):
        raise Unequal(f"other pixels than Pillow ({theirs['mode']})")


def compare_config(ours, theirs, data):
    import yaml
    if theirs is REFUSED:
        raise Unequal("taken, refused by PyYAML")
    if theirs is UNKNOWN:
        return
    printed = yaml.safe_load("\n".join(ours))
    for key, value in (theirs or {}).items() if isinstance(theirs, (dict, type(None))) else ():
        if key in printed and not isinstance(value, dict) and not same_value(printed[key], value):
            raise Unequal(f"{key} is {printed[key]!r}, PyYAML has {value!r}")


KINDS = {"safetensors": (other_safetensors, compare_safetensors), "tar": (other_tar, compare_tar),
         "picture": (other_picture, compare_picture), "config": (other_config, compare_config)}


def compare_batch(differ, kind, paths, counts):
    """[(path, what is different)]"""
    lines = subprocess.run([differ, kind, *paths], check=True, stdin=subprocess.DEVNULL, capture_output=True).stdout
    other, compare = KINDS[kind]
    findings = []
    for path, line in zip(paths, lines.decode("utf-8", "surrogateescape").splitlines(), strict=True):
        ours = json.loads(line)
        counts["inputs"] += 1
        if ours is None:
            continue
        counts["taken"] += 1
        with open(path, "rb") as file:
            data = file.read()
        try:
            compare(ours, other(data), data)
        except Unequal as difference:
            findings.append((path, str(difference)))
    return findings


def main(differ, target, kind, corpus, count="20", seed="1", kept=""):
    work = tempfile.mkdtemp(prefix="differ-")
    counts, findings = {"inputs": 0, "taken": 0}, []
    try:
        subprocess.run([target, "--write", count, seed, work, corpus], check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL)
        paths = sorted(os.path.join(folder, name) for folder in (corpus, work) for name in os.listdir(folder))
        for first in range(0, len(paths), BATCH):
            findings += compare_batch(differ, kind, paths[first:first + BATCH], counts)
        for path, difference in findings:
            print(f"{os.path.basename(path)}: {difference}")
            if kept:
                os.makedirs(kept, exist_ok=True)
                shutil.copy(path, os.path.join(kept, f"{kind}-{os.path.basename(path)}"))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{kind} of {os.path.basename(corpus)}: {counts['inputs']} inputs, {counts['taken']} taken, {len(findings)} findings")
    return 1 if findings or counts["taken"] == 0 else 0


if __name__ == "__main__":
    if not 5 <= len(sys.argv) <= 8:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
