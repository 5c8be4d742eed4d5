"""What is on images: predictors and their answers."""
from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy

from ._library import OK, Handle, PathLike, attempt, ffi, image_array, image_struct, lib, path_bytes, sized, view

ENCODED = (bytes, bytearray, memoryview)
Pictures = Union[PathLike, bytes, "Sequence[PathLike | bytes]"]


@dataclass(frozen=True)
class Answers:
    """What is on some images. Arrays have a row for each image."""

    classes: list[str]  #: the names of all classes; a label is a place in this list
    labels: numpy.ndarray  #: (count, top) int32: the most probable classes, best first; -1: the picture cannot be read
    probabilities: numpy.ndarray  #: (count, top) float32
    unfamiliarity: numpy.ndarray  #: (count) float32: the larger, the stranger the image is to the model
    stranger: numpy.ndarray  #: (count) float32: the part of known images that look at least as strange; NaN: not known
    nearest: numpy.ndarray  #: (count) int32: the class whose features are nearest; -1: the model has no statistics
    features: numpy.ndarray | None  #: (count, features) float32, where they were asked for
    readable: numpy.ndarray  #: (count) bool: with skip_broken, False for pictures that cannot be read

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def names(self) -> numpy.ndarray:
        """(count, top): the names of the classes, best first; "" for a picture that cannot be read."""
        return numpy.array([*self.classes, ""])[self.labels]

    @property
    def best(self) -> numpy.ndarray:
        """(count): the name of the most probable class."""
        return self.names[:, 0]


class Predictor(Handle):
    """Predicts with a model that stays as it is. Each thread takes one of its own; they share the weights of the model.

    Model.predictor makes them. While there are some, the model cannot learn. Every predictor gives the same bits for
    the same image.
    """

    def __init__(self, model: Any, classes: list[str], threads: int):
        """model: the library's handle."""
        super().__init__("predictor")
        self._classes, self._features = classes, lib.recollect_model_features(model)
        attempt(lib.recollect_predictor_create, model, threads, self._place)

    def predict(self, images: Any, *, top: int = 1, features: bool = False, skip_broken: bool = False) -> Answers:
        """What is on these images? As Model.predict."""
        function, arguments, count, kept = _given(images)
        width = min(max(top, 0), len(self._classes))  # the library refuses another one
        found = Answers(classes=self._classes,
                        labels=numpy.empty((count, width), numpy.int32),
                        probabilities=numpy.empty((count, width), numpy.float32),
                        unfamiliarity=numpy.empty(count, numpy.float32),
                        stranger=numpy.empty(count, numpy.float32),
                        nearest=numpy.empty(count, numpy.int32),
                        features=numpy.empty((count, self._features), numpy.float32) if features else None,
                        readable=numpy.ones(count, bool))
        status = numpy.zeros(count, numpy.int32) if skip_broken else None
        outputs = sized("outputs", top=top, labels=view(found.labels, "int32_t *"),
                        probabilities=view(found.probabilities, "float *"),
                        unfamiliarity=view(found.unfamiliarity, "float *"), stranger=view(found.stranger, "float *"),
                        nearest=view(found.nearest, "int32_t *"), features=view(found.features, "float *"),
                        status=view(status, "recollect_status *"))
        with self._used() as handle:
            attempt(function, handle, *arguments, outputs, stop=self._stop)
        if status is not None:
            numpy.equal(status, OK, out=found.readable)
        del kept
        return found

    def predict_proba(self, images: Any) -> numpy.ndarray:
        """The probability of every class: (count, classes) float32, in the order of Model.classes."""
        function, arguments, count, kept = _given(images)
        labels = numpy.empty((count, len(self._classes)), numpy.int32)
        probabilities = numpy.empty(labels.shape, numpy.float32)
        outputs = sized("outputs", top=len(self._classes), labels=view(labels, "int32_t *"),
                        probabilities=view(probabilities, "float *"))
        with self._used() as handle:
            attempt(function, handle, *arguments, outputs, stop=self._stop)
        del kept
        table = numpy.empty_like(probabilities)
        numpy.put_along_axis(table, labels, probabilities, axis=1)
        return table


def _given(images: Any) -> tuple[Any, tuple[Any, ...], int, Any]:
    """The function for these images, its arguments, how many there are, and what must live as long."""
    single = isinstance(images, (str, os.PathLike, *ENCODED))
    if single or isinstance(images, Sequence) and isinstance([*images[:1], ""][0], (str, os.PathLike, *ENCODED)):
        pictures, kept = _pictures([images] if single else images)
        return lib.recollect_predictor_pictures, (pictures, len(pictures)), len(pictures), kept
    array = image_array(images)
    return lib.recollect_predictor_images, (image_struct(array),), len(array), array


def _pictures(given: Sequence[Any]) -> tuple[Any, list[Any]]:
    """recollect_picture of paths and of bytes of files, and what must live as long."""
    pictures, kept = ffi.new("recollect_picture[]", len(given)), []
    for picture, one in zip(pictures, given):
        if isinstance(one, ENCODED):
            kept.append(ffi.from_buffer(one))
            picture.bytes, picture.size = ffi.cast("const void *", kept[-1]), len(kept[-1])
        elif isinstance(one, (str, os.PathLike)):
            kept.append(ffi.new("char[]", path_bytes(one)))
            picture.path = kept[-1]
        else:
            raise TypeError(f"a picture is of type {type(one).__name__}, expected a path or the bytes of a file; "
                            "images in memory are one array of uint8")
    return pictures, kept
