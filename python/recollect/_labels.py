"""The classes of images: names and numbers."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from ._errors import InvalidArgument
from ._library import OK, ffi, image_array, image_struct, lib, name_array, remember, sized, view


def _label_array(labels: Any, count: int) -> numpy.ndarray:
    if labels is None:
        raise TypeError("images in memory need labels: the class of each")
    array = numpy.asarray(labels)
    if array.shape != (count,):
        raise ValueError(f"labels have the shape {array.shape}, expected ({count},): one for each image")
    if array.dtype.kind not in "iuUO" or (array.dtype == object and not all(isinstance(one, str) for one in array)):
        raise TypeError(f"labels are of type {array.dtype}, expected names or whole numbers")
    return array


def _numbers(array: numpy.ndarray, below: int) -> numpy.ndarray:
    if array.size > 0 and not 0 <= int(array.min()) <= int(array.max()) < below:
        raise InvalidArgument(f"labels go from {array.min()} to {array.max()}, expected 0 to {below - 1}")
    return numpy.ascontiguousarray(array, numpy.int32)


def known_labels(labels: Any, classes: list[str], count: int) -> numpy.ndarray:
    """The labels of a model for names or labels."""
    array = _label_array(labels, count)
    if array.dtype.kind in "iu":
        return _numbers(array, len(classes))
    places = {name: i for i, name in enumerate(classes)}
    unknown = sorted({str(name) for name in array} - set(places))
    if unknown:
        raise InvalidArgument(f"the model does not know the class '{unknown[0]}'")
    return numpy.array([places[name] for name in array], numpy.int32)


def lesson(images: Any, labels: Any, classes: Sequence[str] | None) -> tuple[Any, tuple[Any, ...], Any]:
    """The function that teaches these images, its arguments, and what must live as long."""
    array = None  # what has __array__ alone, such as a data set of h5py, would read a whole file to make one
    if isinstance(images, numpy.ndarray) or hasattr(images, "__dlpack__") or not hasattr(images, "__len__"):
        array = image_array(images)
    count = len(images if array is None else array)
    if count == 0:
        raise ValueError("there are no images")
    given = _label_array(labels, count)
    if given.dtype.kind in "iu":
        if classes is None:
            raise TypeError("labels are numbers, which takes `classes`: the names of the classes in their order")
        names, numbers = classes, _numbers(given, len(classes))
    else:
        if classes is not None:
            raise TypeError("labels are names already: `classes` is for labels that are numbers")
        found, places = numpy.unique(given.astype(str), return_inverse=True)
        names, numbers = [str(name) for name in found], numpy.ascontiguousarray(places, numpy.int32)
    pointers, kept = name_array(names)
    if array is not None:
        arguments = image_struct(array), view(numbers, "const int32_t *"), pointers, len(names)
        return lib.recollect_learn, arguments, (kept, array, numbers)
    stream, read = _stream(images, numbers)
    return lib.recollect_learn_stream, (stream, pointers, len(names)), (kept, read, numbers)


def _stream(images: Any, numbers: numpy.ndarray) -> tuple[Any, Any]:
    """recollect_stream of a sequence of images, and the callback that must live as long."""
    def image(index: int) -> numpy.ndarray:
        return image_array(numpy.asarray(images[index])[None])[0]

    shape = image(0).shape

    @ffi.callback("recollect_status (void *, int, uint8_t *)", error=lib.RECOLLECT_INVALID_ARGUMENT, onerror=remember)
    def read(_user: Any, index: int, pixels: Any) -> int:
        one = image(index)
        if one.shape != shape:
            raise ValueError(f"image {index} has the shape {one.shape}, the first has {shape}")
        ffi.memmove(pixels, one, one.nbytes)
        return OK

    height, width, channels = shape
    return sized("stream", count=len(numbers), height=height, width=width, channels=channels,
                 labels=view(numbers, "const int32_t *"), read=read), read
