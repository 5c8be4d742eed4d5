"""What Pillow makes of resizing, as checksums: resizing is the same bit for bit. (Up to version 12, which resizes rows
before columns, as did those that the published experiments were made with; 13 sometimes does columns first.) The pictures are the lowest bytes of
Philox numbers, whose stream is the number of the case. Lines:

    resize FILTER H W C OUT_H OUT_W CRC32        Image.resize((OUT_W, OUT_H), FILTER)
    fit FILTER H W C RESIZE SIZE CHANNELS CRC32  convert, torchvision's Resize(RESIZE, FILTER), CenterCrop(SIZE)
"""
import zlib

import numpy as np
import PIL
from PIL import Image

import philox

SEED = 7
RESIZES = [(32, 32, 3, 16, 16), (32, 32, 3, 64, 64), (28, 28, 1, 32, 32), (37, 23, 3, 12, 19), (23, 37, 1, 23, 9),
           (23, 37, 3, 61, 37), (200, 150, 3, 31, 47), (5, 7, 3, 1, 1), (1, 1, 3, 4, 6), (190, 2, 1, 7, 5),
           (64, 64, 3, 64, 64)]
FITS = [(32, 32, 3, 32, 32, 3), (32, 32, 3, 32, 32, 1), (28, 28, 1, 32, 32, 3), (37, 50, 3, 32, 32, 3),
        (50, 37, 3, 32, 32, 3), (75, 100, 3, 64, 64, 3), (101, 75, 3, 72, 64, 3), (100, 333, 1, 40, 33, 1),
        (333, 100, 3, 41, 34, 1), (90, 91, 3, 36, 33, 3), (91, 90, 3, 37, 32, 3), (20, 30, 3, 64, 61, 3),
        (240, 320, 3, 256, 224, 3), (47, 33, 3, 36, 35, 3)]


def picture(case, h, w, c):
    values = (philox.bits(SEED, case, h * w * c) & np.uint32(255)).astype(np.uint8)
    return Image.fromarray(values.reshape(h, w) if c == 1 else values.reshape(h, w, c))


FILTERS = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}


def fit(image, resize, size, channels, how):
    """torchvision.transforms.Resize(resize) and CenterCrop(size) of a PIL image, spelled out."""
    image = image.convert("L" if channels == 1 else "RGB")
    w, h = image.size
    short, long = (w, h) if w <= h else (h, w)
    if short != resize:
        longer = int(resize * long / short)
        w, h = (resize, longer) if w <= h else (longer, resize)
        image = image.resize((w, h), how)
    top, left = int(round((h - size) / 2.0)), int(round((w - size) / 2.0))
    return image.crop((left, top, left + size, top + size))


class File:
    def __init__(self):
        self.lines = [f"# Made by script/fixtures with Pillow {PIL.__version__}; told in tests/oracle/resize.py"]

    def save(self, path):
        path.write_text("\n".join(self.lines) + "\n", encoding="ascii")


def make():
    file = File()
    for name, how in FILTERS.items():
        for case, (h, w, c, out_h, out_w) in enumerate(RESIZES):
            out = picture(case, h, w, c).resize((out_w, out_h), how)
            file.lines.append(f"resize {name} {h} {w} {c} {out_h} {out_w} {zlib.crc32(out.tobytes()):08x}")
        for case, (h, w, c, resize, size, channels) in enumerate(FITS):
            out = fit(picture(case, h, w, c), resize, size, channels, how)
            file.lines.append(f"fit {name} {h} {w} {c} {resize} {size} {channels} {zlib.crc32(out.tobytes()):08x}")
    return file
