"""Exceptions of functions that run in other processes: as bytes, and back. Retry policies look at their class."""

from __future__ import annotations

import io
import pickle
from typing import Any, NamedTuple

_MAIN = "__mp_main__"
"""What the main program is called in other processes, as for Python's multiprocessing."""


class _Failure(NamedTuple):
    whole: bytes | None
    """The exception itself, if it can be pickled."""
    classes: list[tuple[str, bytes]]
    """Its class and the bases of that, as far as they can be pickled."""
    name: str
    message: str


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return super().find_class("__main__" if module == _MAIN else module, name)


def failure_as_bytes(error: Exception) -> bytes:
    kind = type(error)
    classes = [(base.__qualname__, _pickled(base)) for base in kind.__mro__ if issubclass(base, Exception)]
    failure = _Failure(
        _pickled(error),
        [(name, pickled) for name, pickled in classes if pickled is not None],
        kind.__qualname__,
        _text(error),
    )
    return pickle.dumps(tuple(failure), pickle.HIGHEST_PROTOCOL)


def failure_from_bytes(content: bytes) -> Exception:
    """The exception; if it can't be made again, one of the same class, or of the nearest base, with its message."""
    failure = _Failure(*pickle.loads(content))
    error = _loaded(failure.whole)
    if isinstance(error, Exception):
        return error
    for name, pickled in failure.classes:
        kind = _loaded(pickled)
        if isinstance(kind, type) and issubclass(kind, Exception):
            message = failure.message if name == failure.name else f"{failure.name}: {failure.message}"
            made = kind.__new__(kind)  # what its __init__ wants is unknown
            made.args = (message,)
            return made
    return RuntimeError(f"{failure.name}: {failure.message}")


def _pickled(value: object) -> bytes | None:
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except BaseException:
        return None


def _loaded(pickled: bytes | None) -> object:
    if pickled is None:
        return None
    try:
        return _Unpickler(io.BytesIO(pickled)).load()
    except Exception:
        return None


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:
        return ""
