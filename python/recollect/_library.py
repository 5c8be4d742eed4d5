"""The library itself: how it is opened, called and heard.

Its functions run without the GIL. Its callbacks run on the thread that called it, with the GIL. One set of callbacks
serves all contexts: what a callback belongs to is the call that its thread is in.
"""
from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence, TypeVar, Union

import numpy

from . import _declarations  # type: ignore[attr-defined]
from ._errors import BY_STATUS, RecollectError

Self = TypeVar("Self", bound="Handle")
PathLike = Union[str, "os.PathLike[str]"]

ffi: Any = _declarations.ffi
FOLDER = Path(__file__).absolute().parent
lib: Any = ffi.dlopen(str(FOLDER / "librecollect.so"))
if lib.recollect_api_version() < lib.RECOLLECT_API_VERSION:
    raise ImportError(f"{FOLDER / 'librecollect.so'} has state {lib.recollect_api_version()} of the header, "
                      f"expected {lib.RECOLLECT_API_VERSION} or later")

OK = lib.RECOLLECT_OK
logger = logging.getLogger("recollect")
STATUS: dict[int, str] = {value: name[len("RECOLLECT_"):]
                          for name, value in ffi.typeof("recollect_status").relements.items()}
LEVELS: dict[int, int] = {value: getattr(logging, name[len("RECOLLECT_LOG_"):])
                          for name, value in ffi.typeof("recollect_log_level").relements.items()}


def text(pointer: Any) -> str:
    """A text of the library's as a str."""
    return "" if pointer == ffi.NULL else ffi.string(pointer).decode("utf-8", "replace")


def path_bytes(path: PathLike) -> bytes:
    """A path as the library takes it. A path is bytes to the system, and must not hide a zero byte."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("a path holds a zero byte")
    return name


def text_bytes(value: str, what: str) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{what} is of type {type(value).__name__}, expected str")
    if "\0" in value:
        raise ValueError(f"{what} holds a zero character")
    return value.encode("utf-8", "surrogateescape")


# ---- calls ---------------------------------------------------------------------------------------------------------

class Progress(NamedTuple):
    """How far a long call is. `str()` gives all of it in one line."""

    stage: str  #: "reading", "scoring", "inversion", "training", "refinement", "estimation"
    task: int  #: 1: the first classes, 2: the next ones, ...
    step: int  #: steps done of the stage; while reading and scoring: images
    steps: int
    epoch: int  #: 0 of 0 where there are none
    epochs: int
    losses: dict[str, float]
    images_per_second: float  #: NaN: not known yet, as with the next two
    stage_seconds_left: float
    seconds_left: float  #: of the call
    fraction: float  #: of the work of all stages that is done; NaN while reading and scoring
    text: str

    def __str__(self) -> str:
        return self.text


class Stop:
    """Whether somebody wants a call to stop: Model.cancel() says so, from any thread."""

    wanted = False


class _Call:
    """A call of the library that a thread is in."""

    def __init__(self, progress: Callable[[Progress], object] | None, stop: Stop | None):
        self.progress = progress
        self.stop = stop
        self.error: BaseException | None = None  # that a callback ended with: it ends the call


class _Thread(threading.local):
    call: _Call | None = None


_thread = _Thread()


def remember(_kind: object, error: BaseException, _trace: object) -> None:
    """Keeps an exception of a callback for the end of the call. Ctrl-C arrives here, too: Python raises
    KeyboardInterrupt in the first callback after the signal, on its way in."""
    call = _thread.call
    if call is not None and call.error is None:
        call.error = error


@ffi.callback("int (void *)", error=1, onerror=remember)
def _cancelled(_user: Any) -> bool:
    call = _thread.call
    return call is not None and (call.error is not None or (call.stop is not None and call.stop.wanted))


@ffi.callback("void (void *, const recollect_progress *)", onerror=remember)
def _progress(_user: Any, p: Any) -> None:
    call = _thread.call
    if call is None or call.progress is None or call.error is not None:
        return
    losses = {text(p.losses[i].name): p.losses[i].value for i in range(p.loss_count)}
    call.progress(Progress(text(p.stage_name), p.task, p.step, p.steps, p.epoch, p.epochs, losses, p.images_per_second,
                           p.stage_seconds_left, p.seconds_left, p.fraction, text(p.text)))


@ffi.callback("void (void *, recollect_log_level, const char *)", onerror=remember)
def _log(_user: Any, level: int, line: Any) -> None:
    logger.log(LEVELS[level], "%s", text(line))


@ffi.callback("void (void *, const char *)", onerror=remember)
def take_line(user: Any, line: Any) -> None:
    """Appends a line to the list behind the handle `user`."""
    ffi.from_handle(user).append(text(line))


def attempt(function: Callable[..., int], *arguments: Any, progress: Callable[[Progress], object] | None = None,
            stop: Stop | None = None) -> None:
    """Calls a function that can fail, and raises what went wrong: the exception of a callback, else the library's
    message."""
    before, call = _thread.call, _Call(progress, stop)
    try:
        _thread.call = call
        status = function(*arguments)
    finally:
        _thread.call = before
    error, call.error = call.error, None
    if error is not None:
        try:
            raise error
        finally:
            del error  # its traceback leads to this frame: such a circle would keep models until it is collected
    if status != OK:
        raise BY_STATUS.get(STATUS.get(status, ""), RecollectError)(text(lib.recollect_last_message()))


def holder(kind: str) -> Any:
    """A place for a handle of this kind, NULL at first. What is in it when nobody holds the place any more is
    destroyed."""
    return ffi.gc(ffi.new(f"recollect_{kind} **"), getattr(lib, f"recollect_{kind}_destroy"))


class Handle:
    """A handle that one thread uses at a time: others wait. A callback cannot use the handle whose call it belongs
    to."""

    def __init__(self, kind: str):
        self._lock, self._busy, self._process = threading.RLock(), False, os.getpid()
        self._stop, self._begins = Stop(), True  # does a call of it begin what may be stopped, or belong to another's?
        self._destroy = getattr(lib, f"recollect_{kind}_destroy")
        self._place = holder(kind)

    @contextlib.contextmanager
    def _used(self) -> Iterator[Any]:
        if os.getpid() != self._process:  # a child of fork(), whose lock may stay shut for ever: the library refuses
            yield self._open()
            return
        with self._lock:
            if self._busy:
                raise RuntimeError(f"a callback cannot use the {type(self).__name__} that calls it")
            try:
                self._busy = True
                if self._begins:
                    self._stop.wanted = False
                yield self._open()
            finally:
                self._busy = False

    def _open(self) -> Any:
        if self._place[0] == ffi.NULL:
            raise ValueError(f"the {type(self).__name__} is closed")
        return self._place[0]

    def cancel(self) -> None:
        """Stops what another thread is doing with it: that call raises Cancelled within about a second."""
        self._stop.wanted = True

    def close(self) -> None:
        """Frees its memory now, not when the last reference to it is gone. Closing twice is fine. A call that
        another thread is in comes to its end first."""
        if os.getpid() != self._process:
            self._destroy(self._place)
            return
        with self._lock:  # a callback has it already: the library then frees the memory at the end of its call
            self._destroy(self._place)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sized(kind: str, **members: Any) -> Any:
    """A zeroed structure whose `size` is set."""
    structure = ffi.new(f"recollect_{kind} *", members)
    structure.size = ffi.sizeof(f"recollect_{kind}")
    return structure


def lines(describe: Callable[..., int], *arguments: Any) -> list[str]:
    """What a describing function, whose last two arguments are a line function and its user, says."""
    said: list[str] = []
    handle = ffi.new_handle(said)
    attempt(describe, *arguments, take_line, handle)
    return said


def described(describe: Callable[..., int], *arguments: Any) -> Any:
    """The JSON that a describing function says."""
    return json.loads(lines(describe, *arguments)[0])


def open_context(backend: str, threads: int, max_memory: int) -> Any:
    settings = ffi.new("recollect_settings *")
    lib.recollect_settings_default(settings, ffi.sizeof("recollect_settings"))
    name = ffi.new("char[]", text_bytes(backend, "backend"))
    settings.backend = name
    settings.threads = threads
    settings.max_memory = max_memory
    settings.log, settings.log_level = _log, lib.RECOLLECT_LOG_DEBUG  # the logger chooses among them
    settings.progress, settings.cancelled = _progress, _cancelled
    context = holder("context")
    attempt(lib.recollect_context_create, settings, context)
    return context


# ---- arrays --------------------------------------------------------------------------------------------------------

def image_array(images: Any) -> numpy.ndarray:
    """Images as (count, height, width, channels), in one piece. Copies nothing that is in this form already."""
    array = numpy.asarray(images)
    if array.dtype != numpy.uint8:
        files = "; files are a list of paths for predict, a folder for learn and evaluate"
        raise TypeError(f"images are of type {array.dtype}, expected uint8: whole numbers from 0 to 255"
                        f"{files if array.dtype.kind in 'OSU' else ''}")
    if array.ndim == 3 and array.shape[2] in (1, 3):
        raise ValueError(f"images have the shape {array.shape}, which is that of one image; image[None] is a batch of one")
    if array.ndim == 3:
        array = array[..., None]
    if array.ndim != 4:
        raise ValueError(f"images have the shape {array.shape}, expected (count, height, width, channels), or (count, "
                         "height, width) if they are grey; image[None] is a batch of one")
    if array.shape[1] in (1, 3) and array.shape[2] == array.shape[3] > 4:
        raise ValueError(f"images have the shape {array.shape}, channels first, expected (count, height, width, "
                         "channels): images.transpose(0, 2, 3, 1) puts them last")
    return numpy.ascontiguousarray(array)


def image_struct(array: numpy.ndarray) -> Any:
    """recollect_images of such an array, which must live as long. ffi.new keeps no member alive."""
    count, height, width, channels = array.shape
    return ffi.new("recollect_images *", (view(array, "const uint8_t *"), count, height, width, channels))


def view(array: numpy.ndarray | None, pointer: str) -> Any:
    """A pointer to the numbers of an array in one piece, which must live as long; NULL for None."""
    return ffi.NULL if array is None else ffi.cast(pointer, ffi.from_buffer(array))


def name_array(names: Sequence[str]) -> tuple[Any, list[Any]]:
    """Names as the library takes them, and what must live as long."""
    if isinstance(names, str):
        raise TypeError("the names of classes are one str, expected a list of them")
    kept = [ffi.new("char[]", text_bytes(name, f"the name of class {i}")) for i, name in enumerate(names)]
    return ffi.new("const char *[]", kept), kept


# ---- what there is -------------------------------------------------------------------------------------------------

def _items(kind: str) -> Iterator[dict[str, Any]]:
    """The items of a list of the library, each as a dict of the members of its structure."""
    item, at = sized(kind), getattr(lib, f"recollect_{kind}_at")
    fields = [name for name, _ in ffi.typeof(f"recollect_{kind}").fields if name != "size"]
    index = 0
    while at(index, item):
        values = ((name, getattr(item, name)) for name in fields)
        yield {name: value if isinstance(value, (int, float)) else None if value == ffi.NULL else text(value)
               for name, value in values}
        index += 1


def methods() -> list[dict[str, Any]]:
    """The ways to learn: for option `method`."""
    return described(lib.recollect_describe_methods, 1)


def settings() -> list[dict[str, Any]]:
    """The settings that Model.set takes: name, type, help, initial value, range."""
    return list(_items("setting"))


def presets() -> list[dict[str, Any]]:
    """Settings that belong together: for option `preset`, and for run()."""
    return list(_items("preset"))


def _names(at: Callable[[int], Any]) -> list[str]:
    names: list[str] = []
    while (name := at(len(names))) != ffi.NULL:
        names.append(text(name))
    return names


def nets() -> list[str]:
    """Names of the nets: for option `net`."""
    return _names(lib.recollect_net_at)


def published_nets() -> list[str]:
    """Names of the nets whose published weights Model.import_weights takes."""
    return _names(lib.recollect_published_net_at)


def machine() -> str:
    """This machine, the backends that it has, and the kinds of pictures that are read."""
    return "\n".join(lines(lib.recollect_describe_machine))


def option_text(value: object) -> str:
    """The value of an option as the library reads it.

    >>> [option_text(value) for value in (True, 0.02, 3, "cwd", [60, 80])]
    ['true', '0.02', '3', 'cwd', '60,80']
    """
    if isinstance(value, (bool, numpy.bool_)):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (int, numpy.integer)):
        return str(int(value))
    if isinstance(value, (float, numpy.floating)):
        return repr(float(value))
    if isinstance(value, (list, tuple, numpy.ndarray)):
        return ",".join(map(option_text, value))
    raise TypeError(f"an option is of type {type(value).__name__}, expected a text, a number, a truth value or a list")


def checked_options(options: Mapping[str, object]) -> dict[str, str]:
    """The options as texts, if the library takes all of them."""
    texts = {name: option_text(value) for name, value in options.items()}
    for name, value in texts.items():
        attempt(lib.recollect_check_option, text_bytes(name, "the name of an option"),
                text_bytes(value, f"the option {name!r}"))
    return texts
