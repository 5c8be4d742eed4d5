#!/usr/bin/env python3
"""How near dreams come to the images that a model was taught with.

usage: bench/nearest.py LIBRARY MODEL TAUGHT UNSEEN [DREAMS]

LIBRARY is librecollect.so. TAUGHT and UNSEEN hold a folder of images for each class of MODEL, in the model's size: those
that it was taught with, and as many that it never saw. DREAMS (default: 16) are drawn of each class. Prints the distance
from each dream to the nearest taught and to the nearest unseen image of any class, and, to compare, from each unseen image
to the nearest taught one: the root of the mean square difference of a pixel, in levels of 0 to 255. Where dreams were
copies of taught images, the first number would be near 0; where they leant on them, it would be below the second. Needs
numpy and Pillow.
"""
import ctypes
import sys
from pathlib import Path

import numpy
from PIL import Image


def images(folder, names, shape):
    mode = "L" if shape[2] == 1 else "RGB"
    files = [file for name in names for file in sorted((Path(folder) / name).iterdir())]
    return numpy.stack([numpy.asarray(Image.open(file).convert(mode), dtype=numpy.float32).reshape(-1) for file in files])


def nearest(what, among):
    """The root mean square distance of each row of `what` to the nearest row of `among`."""
    squares = (what ** 2).sum(1)[:, None] - 2 * what @ among.T + (among ** 2).sum(1)[None]
    return numpy.sqrt(numpy.maximum(squares.min(1), 0) / what.shape[1])


def dreams(library, model, count):
    """All dreams as rows, the names of the classes, the shape of an image."""
    handle = ctypes.CDLL(library)
    handle.recollect_model_class_name.restype = ctypes.c_char_p
    handle.recollect_last_message.restype = ctypes.c_char_p
    context, loaded, made = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()

    def check(status):
        if status != 0:
            sys.exit(f"nearest.py: {handle.recollect_last_message().decode()}")
    check(handle.recollect_context_create(None, ctypes.byref(context)))
    check(handle.recollect_model_load(context, model.encode(), ctypes.byref(loaded)))
    shape = (handle.recollect_model_image_height(loaded), handle.recollect_model_image_width(loaded),
             handle.recollect_model_image_channels(loaded))
    size, rows, names = shape[0] * shape[1] * shape[2], [], []
    for label in range(handle.recollect_model_classes(loaded)):
        pixels = (ctypes.c_uint8 * (count * size))()
        check(handle.recollect_dream(loaded, label, count, pixels, ctypes.byref(made)))
        rows.append(numpy.frombuffer(pixels, numpy.uint8).reshape(count, size)[:made.value].astype(numpy.float32))
        names.append(handle.recollect_model_class_name(loaded, label).decode())
    return numpy.concatenate(rows), names, shape


def main():
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    library, model, taught, unseen = sys.argv[1:5]
    drawn, names, shape = dreams(library, model, int(sys.argv[5]) if len(sys.argv) == 6 else 16)
    taught, unseen = images(taught, names, shape), images(unseen, names, shape)
    print(f"{len(drawn)} dreams, {len(taught)} taught and {len(unseen)} unseen images of {len(names)} classes")
    for words, found in (("dream to taught", nearest(drawn, taught)), ("dream to unseen", nearest(drawn, unseen)),
                         ("unseen to taught", nearest(unseen, taught))):
        print(f"{words}: least {found.min():.1f}, median {numpy.median(found):.1f}, most {found.max():.1f}")
    print(f"{100 * ((drawn == 0) | (drawn == 255)).mean():.0f} % of the pixels of dreams are 0 or 255")


if __name__ == "__main__":
    main()
