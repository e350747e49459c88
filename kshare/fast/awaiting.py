"""One record after the other by `anext`, without a coroutine for each: that took longer than all else done for one.

Decides nothing: how a record is taken, or waited for, is the subclass's. Compiled through `awaiting.pxd`.

Gains: a record of a loop takes 94 ns instead of 256; a coroutine for each took longer than to make the record.
To take it out: let `__anext__` return `self.wait(current_task())`, and delete `take` and `NextRecord`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any, Self

import kshare.fast.current_task as current_task
from kshare import fast
from kshare.fast.left_loops import Loop

_is_on = fast.IS_ON


class RecordIterator(Loop):
    """What is iterated over."""

    __slots__ = ("_spare",)

    def __init__(self) -> None:
        self._spare: NextRecord | None = None

    def take(self, task: object) -> Any:
        """The next record for this task, if nothing has to be waited for."""
        raise NotImplementedError

    async def wait(self, task: object) -> Any:
        """The next record for this task, when it is there."""
        raise NotImplementedError

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> NextRecord:
        one = self._spare
        if one is None:
            one = NextRecord()
        self._spare = None
        one.records = self
        task = current_task.current_task()
        if one.task is not task:  # a comparison is quicker than to count who knows it
            one.task = task
        return one

    def finish(self, one: NextRecord) -> None:
        """Its record is there: the next `anext` may have it, for not even such a one need be made for each record."""
        one.records = None
        self._spare = one


class NextRecord:
    """What `anext` gives: in all but name a coroutine of `wait`, which isn't made if the record can be taken.

    Like a coroutine it does nothing before it is awaited, and may be awaited once.
    """

    __slots__ = ("_waiting", "records", "task")

    def __init__(self) -> None:
        self.records: RecordIterator | None = None
        """None once it has been awaited."""
        self.task: object = None
        """Who asks: the task that called `anext`, though another may await it for that one."""
        self._waiting: Coroutine[Any, Any, Any] | None = None

    def __await__(self) -> Generator[Any, Any, Any]:
        return self

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """What `await` calls, where `await_slots` hasn't told it better."""
        record = self.take()
        if record is not None:
            raise StopIteration(record)
        return self.waiting().send(value)

    def throw(self, *error: Any) -> Any:
        return self.waiting().throw(*error)

    def close(self) -> None:
        self.records = None
        if self._waiting is not None:
            self._waiting.close()

    def take(self) -> Any:
        records = self.records
        if records is None or not _is_on:
            return None
        record = records.take(self.task)
        if record is not None:
            records.finish(self)
        return record

    def waiting(self) -> Coroutine[Any, Any, Any]:
        if self._waiting is None:
            if self.records is None:
                raise RuntimeError("it has been awaited already")
            self._waiting = self.records.wait(self.task)
            self.records = self.task = None
        return self._waiting
