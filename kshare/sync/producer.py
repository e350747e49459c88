"""The producer for blocking code.

    with kshare.sync.Producer("localhost:9092") as producer:
        produced = producer.send("orders", b"shipped", key=b"order 7")

The same producer as `kshare.Producer`, on an event loop that the calling thread runs itself while it waits (see
`shared_loop`), and a background thread in between. Any thread may call any method.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from contextvars import ContextVar
from threading import RLock, Thread, current_thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack
from weakref import WeakSet

from kshare.errors import KshareError
from kshare.fast.shown_names import show_as
from kshare.producer.client import NOT_CLOSED
from kshare.producer.client import Producer as _Producer
from kshare.producer.records import Headers, Produced
from kshare.producer.records import PendingSend as _PendingSend
from kshare.sync.shared_loop import LoopClosed, SharedLoop
from kshare.sync.signals import SignalsPutOff, finish

if TYPE_CHECKING:
    from kshare.producer.options import ProducerOptions

log = logging.getLogger("kshare.producer")

ReturnT = TypeVar("ReturnT")


class PendingSend:
    """A record in flight: `result()` waits for it."""

    __module__ = "kshare.sync"

    __slots__ = ("_run", "_send")

    def __init__(self, send: _PendingSend, run: Callable[[Callable[[], Any]], Any]) -> None:
        self._send = send
        self._run = run

    @property
    def is_done(self) -> bool:
        return self._send.is_done

    def result(self) -> Produced:
        """Wait until all in-sync replicas have the record. Raises the error if it wasn't written."""
        if not self._send.is_done:
            self._run(self._send.wait)
        return self._send.result()


class Producer:
    """Writes records: use it with `with`. Options are those of `kshare.Producer`."""

    _loop: SharedLoop | None = None
    """In the class, because `__init__` may be interrupted before it has begun."""

    def __init__(
        self, bootstrap_servers: str | Iterable[str] | None = None, **options: Unpack[ProducerOptions]
    ) -> None:
        self._closing = RLock()
        """Held by the thread that closes; others wait for it."""
        self._has_warned = False
        self._producer = _Producer(bootstrap_servers, **options)
        self._producer.find_caller = _thread.get

    def __enter__(self) -> Self:
        """Connect to a broker and get a producer id, or raise. Fences older producers with our transactional id."""
        if self._loop is not None:
            raise KshareError("the producer is open already: create one for each `with`")
        try:
            with SignalsPutOff(lambda: None):  # an interrupt here would leave a thread that nobody knows of
                self._loop = SharedLoop(_Unconcerned())
                _open.add(self)
            self._run(self._producer.__aenter__)
        except BaseException:
            finish(self.close)
            raise
        return self

    def __del__(self) -> None:
        if self._loop is not None and not self._loop.is_foreign and not self._has_warned:
            self._warn()

    def _warn(self) -> None:
        """It should have been closed, and the process may end before its records are written."""
        _open.discard(self)
        self._has_warned = True
        warnings.warn(f"{NOT_CLOSED}: use it with `with`", ResourceWarning, stacklevel=2, source=self)
        if count := self._producer._unconfirmed:
            log.warning("%s: %d of them", NOT_CLOSED, count)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the remaining records, within `close_timeout`. Raises the error of a record that wasn't written."""
        try:
            finish(self.close)
        except KshareError as problem:
            if error is None:
                raise
            # The error that ended the block is more important to the user.
            log.warning("a producer was closed, and not all records were written: %s", problem)

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Produced:
        """Write a record, and wait until all in-sync replicas have it.

        If a signal handler raises meanwhile, as after Ctrl-C, the record may be written or not.
        """
        return self._run(lambda: self._producer.send(topic, value, key, headers, partition, timestamp))

    def enqueue(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> PendingSend:
        """Put a record into the buffer and return the handle of its result.

        Returns at once, except while the buffer is full, or while the partitions of a topic are looked up that wasn't
        written to before. If a signal handler raises meanwhile, as after Ctrl-C, the record may be written or not.

        If you don't ask for the result, `flush` or the end of `with` raises the error of a record that wasn't written.
        """
        send = self._run(lambda: self._producer.enqueue(topic, value, key, headers, partition, timestamp))
        return PendingSend(send, self._run)

    def flush(self) -> None:
        """Wait until the outcome of all records that were enqueued before is known, whoever has enqueued them.

        Raises the error of a record that wasn't written, unless its result was asked for. A note says how many there
        are, and for which partitions. Each thread is told of its own records, and once of others that nobody was told
        of.
        """
        self._run(self._producer.flush)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """`with producer.transaction():` commits what is written in it, or nothing.

        It is aborted if the block raises, or if a record wasn't written. If a signal handler raises during the commit,
        as after Ctrl-C, it may be committed or not. Raises CommitUnknown if the outcome isn't known.
        """
        block = _Block(self._producer.transaction())
        try:
            self._run(block.begin)
            yield
            self._run(lambda: block.end(None))
        except BaseException as error:
            problem = error
            try:
                with suppress(KshareError):  # it matters less
                    self._run(lambda: block.end(problem))
            finally:
                del problem  # see `kshare.errors`
            raise

    def close(self) -> None:
        """Write the remaining records, within `close_timeout`. Called at the end of `with`.

        Any thread may call it, more than once: all calls return when the producer is closed.
        """
        loop = self._loop
        if loop is None or loop.is_foreign:
            return
        with self._closing, SignalsPutOff(lambda: None):
            if self._loop is not loop:
                return
            _open.discard(self)
            try:
                loop.run(_called_by(current_thread(), self._producer.close))
            finally:
                loop.close()
                self._loop = None

    # --- the event loop

    def _run(self, function: Callable[[], Coroutine[Any, Any, ReturnT]]) -> ReturnT:
        loop = self._loop
        if loop is None:
            raise self._producer._not_open("with")
        try:
            return loop.run(_called_by(current_thread(), function))
        except LoopClosed:
            raise KshareError("the producer was closed by another thread") from None


show_as(Producer, b"kshare.sync.Producer")


class _Block:
    """A transaction of the producer. When Ctrl-C interrupts the caller, it may have begun or ended all the same."""

    def __init__(self, transaction: AbstractAsyncContextManager[None]) -> None:
        self._transaction = transaction
        self._entering: asyncio.Event | None = None
        """Set when entering is over, successful or not."""
        self._is_entered = False

    async def begin(self) -> None:
        self._entering = asyncio.Event()
        try:
            await self._transaction.__aenter__()
            self._is_entered = True
        finally:
            self._entering.set()

    async def end(self, error: BaseException | None) -> None:
        """Unless it has been ended."""
        if self._entering is not None:
            await self._entering.wait()
        if self._is_entered:
            self._is_entered = False
            await self._transaction.__aexit__(None if error is None else type(error), error, None)


_open: WeakSet[Producer] = WeakSet()


@atexit.register
def _warn_of_open() -> None:
    """When the interpreter exits, nothing more is written."""
    for producer in list(_open):
        producer._warn()


_thread: ContextVar[Thread | None] = ContextVar("thread", default=None)
"""Which thread makes the call that the current task runs."""


def _called_by(
    thread: Thread, function: Callable[[], Coroutine[Any, Any, ReturnT]]
) -> Callable[[], Coroutine[Any, Any, ReturnT]]:
    async def run() -> ReturnT:
        _thread.set(thread)  # in the context of this call's task alone
        return await function()

    return run


class _Unconcerned:
    """Nothing depends on which thread runs the loop."""

    def on_taken(self) -> None: ...

    def on_run(self) -> None: ...

    def on_free(self) -> None: ...
