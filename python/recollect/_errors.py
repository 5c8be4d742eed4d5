"""What can go wrong: a class for each status of the library, each also the built-in exception that it is a kind of."""
from __future__ import annotations

from typing import ClassVar


class RecollectError(Exception):
    """What the library, or the program, refused or could not do. Its text is the library's message."""

    status: ClassVar[str] = ""  #: the status without RECOLLECT_, as the header lists it


class InvalidArgument(RecollectError, ValueError):
    """An argument, an option or the data is not what was expected."""

    status = "INVALID_ARGUMENT"


class OutOfMemory(RecollectError, MemoryError):
    """There is not enough memory, or the limit on it does not allow more."""

    status = "OUT_OF_MEMORY"


class InputOutputError(RecollectError, OSError):
    """A file cannot be read or written."""

    status = "IO"


class FormatError(RecollectError, ValueError):
    """A file or a text is malformed."""

    status = "FORMAT"


class Unsupported(RecollectError, NotImplementedError):
    """This machine or this build does not have what was asked for."""

    status = "UNSUPPORTED"


class NumericError(RecollectError, ArithmeticError):
    """Training diverged, or weights are damaged: a number is not finite."""

    status = "NUMERIC"


class Cancelled(RecollectError):
    """Model.cancel() stopped the call."""

    status = "CANCELLED"


class InternalError(RecollectError, RuntimeError):
    """A mistake of the library's own."""

    status = "INTERNAL"


class DeviceError(RecollectError, RuntimeError):
    """The GPU failed. Its models can only be closed."""

    status = "DEVICE"


class Unsynced(RecollectError, OSError):
    """The file is there and whole, but a power failure soon after may undo it."""

    status = "UNSYNCED"


class RunError(RecollectError, RuntimeError):
    """An experiment did not come to its end."""

    code: int = 0  #: the exit code of the program


BY_STATUS = {kind.status: kind for kind in RecollectError.__subclasses__() if kind.status}
