"""Defers Python's signal handlers while the main thread runs an event loop.

A handler may raise, as that of Ctrl-C does. While the loop runs, it would raise inside any task.
"""

from __future__ import annotations

# `signal` converts results to enums, which takes thirty times as long; and this is done for every batch.
import _signal  # type: ignore[import-not-found]
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

from kshare.errors import KshareError

_Function = Callable[[int, FrameType | None], Any]
_ATTEMPTS = 100
"""More signals than arrive while a client begins to close."""
_NUMBERS = sorted(int(number) for number in signal.valid_signals())


class SignalsPutOff:
    """Inside it, `on_signal` is called instead of the handlers. They are called at its end, and may raise there.

    In any other thread it does nothing: Python calls signal handlers in the main thread alone. Nor does it inside
    another one: the handlers are called at the end of the outer one.
    """

    __slots__ = ("_handlers", "_noted", "_on_signal", "is_active")

    def __init__(self, on_signal: Callable[[], object]) -> None:
        self._on_signal = on_signal
        self._noted: dict[int, tuple[_Function, FrameType | None]] = {}
        self._handlers: list[tuple[int, _Handler]] = []
        self.is_active = False

    @property
    def has_noted(self) -> bool:
        return bool(self._noted)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            # First: the garbage collector may enter and leave another one meanwhile, which leaves an active one alone.
            self.is_active = True
            try:
                for number in _NUMBERS:
                    handler = _signal.getsignal(number)
                    if callable(handler):
                        self._replace(number, handler)
            except BaseException:  # a handler is called as usual until it is replaced, and may raise
                self._leave()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        self.is_active = False
        try:
            for number, handler in self._handlers:
                if _signal.getsignal(number) is handler:
                    _signal.signal(number, handler.function)
        finally:
            self._call_noted()

    def note(self, function: _Function, number: int, frame: FrameType | None) -> None:
        """A signal that is pending already isn't noted again, as in the operating system."""
        self._noted[number] = function, frame
        self._on_signal()

    def _replace(self, number: int, handler: Any) -> None:
        if not isinstance(handler, _Handler):
            handler = _Handler(handler, self)
        elif handler.put_off.is_active:
            return
        else:  # it was left behind when a handler raised at the end
            handler.put_off = self
        self._handlers.append((number, handler))
        with suppress(ValueError):  # in a subinterpreter, which receives no signals
            _signal.signal(number, handler)

    def _call_noted(self) -> None:
        """Call all of them, even if one raises: the last error is raised, with the one before as its context."""
        error: BaseException | None = None
        while self._noted:
            number = next(iter(self._noted))
            function, frame = self._noted.pop(number)
            try:
                function(number, frame)
            except BaseException as problem:
                problem.__context__ = problem.__context__ or error
                error = problem
        try:
            if error is not None:
                raise error
        finally:
            del error  # see `kshare.errors`


class _Handler:
    """Replaces a handler."""

    __slots__ = ("function", "put_off")

    def __init__(self, function: _Function, put_off: SignalsPutOff) -> None:
        self.function = function
        self.put_off = put_off

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.put_off.is_active:
            self.put_off.note(self.function, number, frame)
        else:
            self.function(number, frame)


def finish(close: Callable[[], None]) -> None:
    """Call it again if a signal handler raised before it began, as that of Ctrl-C does. Raises that at the end."""
    interruption: BaseException | None = None
    for _ in range(_ATTEMPTS):
        try:
            close()
        except KshareError:
            raise
        except BaseException as error:
            interruption = interruption or error
        else:
            break
    try:
        if interruption is not None:
            raise interruption
    finally:
        del interruption  # see `kshare.errors`
