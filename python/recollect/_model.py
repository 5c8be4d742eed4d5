"""Models: what learns, predicts, is evaluated and dreams."""
from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, Callable

import numpy

from ._errors import RecollectError
from ._labels import known_labels, lesson
from ._library import (Handle, PathLike, Progress, attempt, checked_options, described, ffi, holder, image_array,
                       image_struct, lib, open_context, path_bytes, sized, text, text_bytes, view)
from ._predictor import Answers, Predictor

OnProgress = Callable[[Progress], object]
FORGOTTEN = ("preset", "checkpoint")  # options that the library forgets once the model has learnt
DREAMS = 16  # of a class, where the caller does not say how many


def _lines(names: Sequence[str]) -> bytes:
    """A text file with a name on each line."""
    for name in names:
        if not name or "\n" in name or "\r" in name:
            raise ValueError(f"the name of a class is {name!r}, expected one line of text")
    return b"".join(text_bytes(name, "the name of a class") + b"\n" for name in names)


@contextlib.contextmanager
def _file_of(names: Sequence[str]) -> Iterator[str]:
    """The path of a file with these names. Messages say `classes` in its place, which nobody has heard of."""
    with tempfile.NamedTemporaryFile("wb", prefix="classes-", suffix=".txt") as file:
        file.write(_lines(names))
        file.flush()
        try:
            yield file.name
        except RecollectError as error:
            raise type(error)(str(error).replace(file.name, "classes")) from None


def _class_names(handle: Any) -> list[str]:
    return [text(lib.recollect_model_class_name(handle, i)) for i in range(lib.recollect_model_classes(handle))]


def _shape(handle: Any) -> tuple[int, int, int]:
    return (lib.recollect_model_image_height(handle), lib.recollect_model_image_width(handle),
            lib.recollect_model_image_channels(handle))


class Model(Handle):
    """A classifier that learns more classes without the images of those that it knows.

    backend: "cpu", or "cuda" where there is one. threads: 0: one for each core. max_memory: the most bytes that the
    library may take; 0: 80 % of what is free. Options are those of `set`.
    """

    def __init__(self, *, backend: str = "cpu", threads: int = 0, max_memory: int = 0, **options: object):
        self._make(backend, threads, max_memory, lib.recollect_model_create)
        self.set(**options)

    def _make(self, backend: str, threads: int, max_memory: int, function: Any, *arguments: Any) -> Model:
        """The model that a function of the library makes in a new context."""
        super().__init__("model")
        self._backend, self._threads, self._max_memory = backend, threads, max_memory
        self._options: dict[str, str] = {}
        self._own: Predictor | None = None  # that predicts for the model itself
        self._context = open_context(backend, threads, max_memory)
        attempt(function, self._context[0], *arguments, self._place, stop=self._stop)
        return self

    @classmethod
    def load(cls, path: PathLike, *, backend: str = "cpu", threads: int = 0, max_memory: int = 0) -> Model:
        """The model in a file. Files may come from strangers: a broken one is refused."""
        return cls.__new__(cls)._make(backend, threads, max_memory, lib.recollect_model_load, path_bytes(path))

    @classmethod
    def from_bytes(cls, content: bytes, *, backend: str = "cpu", threads: int = 0, max_memory: int = 0) -> Model:
        """The model in the bytes of such a file."""
        return cls.__new__(cls)._make(backend, threads, max_memory, lib.recollect_model_load_memory, bytes(content),
                                      len(content))

    @classmethod
    def import_weights(cls, path: PathLike, *, net: str = "auto", classes: PathLike | Sequence[str] | None = None,
                       backend: str = "cpu", threads: int = 0, max_memory: int = 0) -> Model:
        """A published classifier, to teach it more: the file that torch.save wrote of its state_dict, in which nothing
        is executed, or a safetensors file with the same names.

        net: one of published_nets(); "auto": the names and shapes of the tensors say it. classes: the names of the
        classes in the order of the outputs, or the path of a text file with one on each line.
        """
        with contextlib.ExitStack() as kept:
            if classes is not None and not isinstance(classes, (str, os.PathLike)):
                classes = kept.enter_context(_file_of(classes))
            names = ffi.NULL if classes is None else ffi.new("char[]", path_bytes(classes))
            kind = ffi.new("char[]", text_bytes(net, "net"))
            return cls.__new__(cls)._make(backend, threads, max_memory, lib.recollect_model_import, path_bytes(path),
                                          sized("import_settings", net=kind, classes=names))

    def save(self, path: PathLike, *, overwrite: bool = False) -> None:
        """Writes the model as a safetensors file, whole or not at all. Replaces a file only if `overwrite` is set."""
        with self._used() as handle:
            attempt(lib.recollect_model_save, handle, path_bytes(path), overwrite)

    def export(self, path: PathLike, format: str = "onnx", *, overwrite: bool = False) -> None:
        """Writes the model for other programs: "onnx", "torch" (a state_dict as safetensors) or "c" (a C header).
        What the model needs to learn more is in none of them."""
        with self._used() as handle:
            attempt(lib.recollect_model_export, handle, text_bytes(format, "format"), path_bytes(path), overwrite)

    def to_bytes(self) -> bytes:
        """The bytes of such a file."""
        block, size = ffi.new("void **"), ffi.new("size_t *")
        with self._used() as handle:
            attempt(lib.recollect_model_save_memory, handle, block, size)
        try:
            return bytes(ffi.buffer(block[0], size[0]))
        finally:
            lib.recollect_free(block[0])

    def close(self) -> None:
        # A thread that waits to predict would make a new predictor, which holds the weights, between these two lines. In
        # a child of fork() no thread is there to do it, and the lock may stay shut for ever.
        with self._lock if os.getpid() == self._process else contextlib.nullcontext():
            self._drop_predictor()
            super().close()
        self._context = None  # the last holder of the context frees it

    def _drop_predictor(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            own.close()

    def __reduce__(self) -> tuple[Any, ...]:
        content = self.to_bytes() if self.classes else None
        made_with = {"backend": self._backend, "threads": self._threads, "max_memory": self._max_memory}
        return _revive, (type(self), content, made_with, dict(self._options))

    # ---- options ----------------------------------------------------------------------------------------------------

    def set(self, **options: object) -> Model:
        """Sets options for what the model learns next: any of settings(), or method, adapt, preset, merge,
        skip_broken, format, old_test, hold_out, checkpoint, checkpoint_seconds, resume (docs/python.md). Options
        last until they are set again. Sets all of them or, where one is wrong, none. Returns the model."""
        texts = checked_options(options)
        with self._used() as handle:
            for name, value in texts.items():
                attempt(lib.recollect_model_set, handle, text_bytes(name, "the name of an option"),
                        text_bytes(value, name))
                self._options[name] = value
        return self

    def get(self, name: str) -> str:
        """The value that learning would use now, as text."""
        value = ffi.new("char[]", 4096)
        with self._used() as handle:
            attempt(lib.recollect_model_get, handle, text_bytes(name, "the name of an option"), value, len(value))
        return text(value)

    # ---- what it knows ----------------------------------------------------------------------------------------------

    @property
    def classes(self) -> list[str]:
        """The names of the classes; a label is a place in this list."""
        with self._used() as handle:
            return _class_names(handle)

    @property
    def tasks(self) -> list[int]:
        """How many classes it has learnt each time."""
        with self._used() as handle:
            return [lib.recollect_model_task_classes(handle, i) for i in range(lib.recollect_model_tasks(handle))]

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the images inside the model; zeros while it knows nothing."""
        with self._used() as handle:
            return _shape(handle)

    @property
    def stored_bytes(self) -> int:
        """Bytes that the model keeps from one lesson to the next."""
        with self._used() as handle:
            return lib.recollect_model_stored_bytes(handle)

    def info(self) -> dict[str, Any]:
        """What the model knows and keeps, and its configuration."""
        with self._used() as handle:
            return described(lib.recollect_describe_model, handle, 1)

    def __repr__(self) -> str:
        if self._place[0] == ffi.NULL:
            return "<recollect.Model: closed>"
        if self._busy:
            return "<recollect.Model: at work>"
        known = self.classes
        shown = ", ".join([*known[:5], "..."] if len(known) > 5 else known)
        return f"<recollect.Model: {len(known)} classes{': ' if known else ''}{shown}>"

    # ---- learning ---------------------------------------------------------------------------------------------------

    def learn(self, images: Any, labels: Any = None, *, classes: Sequence[str] | None = None,
              progress: OnProgress | None = None) -> dict[str, Any]:
        """Teaches classes: the first ones (at least two) to a model that knows nothing, more of them to one that knows
        some.

        images: a folder with one folder of pictures for each class, or another data set that the program reads; or an
        array of uint8 (count, height, width, channels), which is not copied; or anything else with a length that gives
        one such image for each index, which are read one by one and need not be in memory. labels, for the last two:
        the name of the class of each image; or its place in `classes`, which lists the names. progress: is called about
        twice a second with a Progress. What it raises ends the call.

        Returns what was learnt: accuracy on images that were held out, the verdict and its warnings. On any failure,
        Ctrl-C and cancel() included, the model is as it was.
        """
        result = sized("learn_result")
        with self._used() as handle:
            if isinstance(images, (str, os.PathLike)):
                if labels is not None or classes is not None:
                    raise TypeError("images in a folder have no labels of their own: the folders name the classes")
                function, arguments, kept = lib.recollect_learn_folder, (path_bytes(images),), None
            else:
                function, arguments, kept = lesson(images, labels, classes)
            self._drop_predictor()
            attempt(function, handle, *arguments, result, progress=progress, stop=self._stop)
            del kept
            for name in FORGOTTEN:
                self._options.pop(name, None)
            return described(lib.recollect_describe_learning, self._open(), result, ffi.NULL, ffi.NULL)

    # ---- predicting -------------------------------------------------------------------------------------------------

    def predictor(self, threads: int = 1) -> Predictor:
        """A Predictor, for a thread of its own. threads: that it computes and decodes with; 0: one for each core."""
        with self._used() as handle:
            return Predictor(handle, _class_names(handle), threads)

    def predict(self, images: Any, *, top: int = 1, features: bool = False, skip_broken: bool = False) -> Answers:
        """What is on these images?

        images: an array of uint8 (count, height, width, channels) of any height and width, or (count, height, width)
        for grey ones; or the path of a picture, the bytes of one, or a list of these. top: classes to name for each
        image, 1 to all. features: also what the last layer but one sees. skip_broken: a picture that cannot be read
        is False in `readable` and a warning of the logger "recollect"; else it is an exception.
        """
        return self._with_predictor("predict", images, top=top, features=features, skip_broken=skip_broken)

    def predict_proba(self, images: Any) -> numpy.ndarray:
        """The probability of every class: (count, classes) float32, in the order of `classes`."""
        return self._with_predictor("predict_proba", images)

    def _with_predictor(self, method: str, *arguments: Any, **options: Any) -> Any:
        with self._used() as handle:
            if self._own is None:
                self._own = Predictor(handle, _class_names(handle), self._threads)
                self._own._stop, self._own._begins = self._stop, False
            return getattr(self._own, method)(*arguments, **options)

    # ---- evaluating -------------------------------------------------------------------------------------------------

    def evaluate(self, images: Any, labels: Any = None, *, progress: OnProgress | None = None) -> dict[str, Any]:
        """How well the model does on labelled images: accuracies with their intervals, the confusion matrix, the
        verdict.

        images: a folder as `learn` takes it, or an array as `predict` takes it; labels, for an array: names, or the
        model's labels.
        """
        place = holder("evaluation")
        with self._used() as handle:
            if isinstance(images, (str, os.PathLike)):
                if labels is not None:
                    raise TypeError("images in a folder have no labels of their own: the folders name the classes")
                attempt(lib.recollect_evaluate_folder, handle, path_bytes(images), place, progress=progress,
                        stop=self._stop)
            else:
                array = image_array(images)
                numbers = known_labels(labels, _class_names(handle), len(array))
                attempt(lib.recollect_evaluate, handle, image_struct(array), view(numbers, "const int32_t *"), place,
                        progress=progress, stop=self._stop)
            found = described(lib.recollect_describe_evaluation, self._open(), place[0], ffi.NULL)
        found["confusion"] = numpy.array(found["confusion"], numpy.int32)
        return found

    # ---- dreaming ---------------------------------------------------------------------------------------------------

    def dream(self, name: str | int, count: int = DREAMS, *, progress: OnProgress | None = None) -> numpy.ndarray:
        """What the model remembers of a class: up to `count` images, (made, height, width, channels) uint8. Fewer, even
        none, if it hardly ever dreams of that class. The first call after learning takes as long as a stage of it."""
        made = ffi.new("int *")
        with self._used() as handle:
            label = int(known_labels([name], _class_names(handle), 1)[0])
            pixels = numpy.empty((max(count, 0), *_shape(handle)), numpy.uint8)
            attempt(lib.recollect_dream, handle, label, count, view(pixels, "uint8_t *"), made, progress=progress,
                    stop=self._stop)
        return pixels[:made[0]]

    def dream_folder(self, folder: PathLike, *, per_class: int = DREAMS, steps: int = 0, seed: int | None = None,
                     scale: int = 0, beside: PathLike | None = None, overwrite: bool = False,
                     progress: OnProgress | None = None) -> dict[str, Any]:
        """Writes dreams of every class as pictures into a folder, beside real images of the data set `beside`. 0 and
        None: the library chooses. Returns how sure the model is of what it dreams."""
        name, per_class = path_bytes(folder), per_class or DREAMS  # the array of probabilities must have room for all
        kept = [ffi.new("char[]", str(seed).encode()) if seed is not None else ffi.NULL,
                ffi.new("char[]", path_bytes(beside)) if beside is not None else ffi.NULL]
        wanted = sized("dream_settings", per_class=per_class, steps=steps, seed=kept[0], scale=scale,
                       overwrite=overwrite, beside=kept[1])
        with self._used() as handle:
            known = lib.recollect_model_classes(handle)
            arrays = {"taken": ffi.new("int[]", known), "spread": ffi.new("double[]", known),
                      "probabilities": ffi.new("float[]", known * max(per_class, 0))}
            if beside is not None:
                arrays["real_probabilities"] = ffi.new("float[]", known * lib.RECOLLECT_REAL_IMAGES)
                arrays["real_taken"] = ffi.new("int32_t[]", known * lib.RECOLLECT_REAL_IMAGES)
            result = sized("dream_result", **arrays)
            attempt(lib.recollect_dream_folder, handle, name, wanted, result, progress=progress, stop=self._stop)
            return described(lib.recollect_describe_dreams, self._open(), result, name)


def _revive(kind: type[Model], content: bytes | None, made_with: dict[str, Any], options: dict[str, str]) -> Model:
    """A model that was pickled: its bytes, and the options that were set."""
    model = kind(**made_with) if content is None else kind.from_bytes(content, **made_with)
    return model.set(**options)
