"""Processes records with an async handler that takes only the payload, as long as it doesn't suspend.

    time_slice = TimeSlice(function, check_result)
    match time_slice.run(records, until_ms):
        case SUSPENDED: await time_slice.suspended()    and then accept `time_slice.record`

A handler that returns without having suspended can't have been cancelled, and its record's lock is as good as before.
So its record is accepted at once, and the next one begins. What suspends, fails or can't be read is left to the caller.
The coroutine is run by hand for that; the rest of a suspended one is awaited as usual.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import CoroutineType
from typing import Any

import kshare.fast.coarse_clock as coarse_clock
import kshare.fast.first_step as first_step
from kshare.client.record import BatchIterator, ShareRecord
from kshare.state.lease import ACCEPT

EMPTY, LATE, SUSPENDED = 0, 1, 2
"""There are no more records; other tasks have to run; the handler of `record` has suspended."""

_ENDED = object()

_accept = ACCEPT
"""Again, as a C variable: see the .pxd."""


class TimeSlice:
    __slots__ = (
        "_awaitable",
        "_call",
        "_check_result",
        "_results",
        "_yielded",
        "done",
        "is_halted",
        "record",
    )

    def __init__(
        self, call: Callable[[bytes | None], Awaitable[Any]], check_result: Callable[[Any], None]
    ) -> None:
        """`check_result` gets what a call has returned, unless that is None, and may raise."""
        self._call = call
        self._check_result = check_result
        self._results: list[object] = []
        self.record: ShareRecord | None = None
        """The record of the last call, if that has suspended or raised."""
        self.done = 0
        """How many records were accepted."""
        self.is_halted = False
        """Set by whoever stops the handler, maybe the handler itself: no further record is begun in this run."""
        self._awaitable: Awaitable[Any] | None = None
        self._yielded: object = None

    def run(self, records: BatchIterator, until_ms: int) -> int:
        """Returns EMPTY, LATE or SUSPENDED; raises what the handler raises, or what reading a record raises.

        `record` tells these apart: it is None if no handler was called.
        """
        self.is_halted = False
        while True:
            self.record = None
            if self.is_halted or coarse_clock.coarse_ms() > until_ms:
                return LATE
            record = records.next_held()
            if record is None:
                return EMPTY
            self.record = record
            awaitable = self._call(record.value)
            if type(awaitable) is not CoroutineType:
                self._awaitable, self._yielded = awaitable, _ENDED
                return SUSPENDED
            yielded = first_step.first_step(awaitable, _ENDED, self._results)
            if yielded is not _ENDED:
                self._awaitable, self._yielded = awaitable, yielded
                return SUSPENDED
            if self._results:
                self._check_result(self._results.pop())
            record.batch._settle(record.offset, _accept)
            self.done += 1

    def suspended(self) -> Awaitable[Any]:
        """Await it, for the rest of the handler."""
        awaitable, yielded = self._awaitable, self._yielded
        assert awaitable is not None, "suspended"
        self._awaitable = self._yielded = None
        return awaitable if yielded is _ENDED else _Rest(awaitable, yielded)


class _Rest:
    """The rest of a coroutine that has yielded something already, to be awaited once."""

    __slots__ = ("_coroutine", "_yielded")

    def __init__(self, coroutine: Any, yielded: object) -> None:
        self._coroutine = coroutine
        self._yielded = yielded

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine, yielded = self._coroutine, self._yielded
        while True:
            try:
                sent = yield yielded
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:
                step = coroutine.throw
                given: Any = error
            else:
                step = coroutine.send
                given = sent
            try:
                yielded = step(given)
            except StopIteration as end:
                return end.value
