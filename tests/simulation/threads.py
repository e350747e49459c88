"""Threads of a simulated process, and what they wait for. They run one at a time, while the world's loop stands still.

Another thread runs only where one waits, so what happens is the same each time. The classes and functions take the
place of those of `threading` and `time`.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextvars import Context
from functools import partial
from math import inf
from typing import Any, Protocol

import anyio

from tests.simulation.blocking import BlockingCode, Killed, wait_for

_PATIENCE = 10
"""How often a thread that was killed may try to wait. `SharedLoop` would run its loop again and again."""
_AT_ONCE_S = 1e-6
"""Times are compared with this tolerance: they are sums."""


class ThreadHost(Protocol):
    """The process, as its threads see it."""

    def now(self) -> float: ...

    def new_context(self) -> Context:
        """What a new thread runs in."""
        ...

    def spawn(self, function: Callable[[], Awaitable[Any]]) -> None:
        """Start a task in the world's loop, which ends with the process."""
        ...

    def on_new_thread(self, thread: Thread) -> None: ...

    def on_resumed(self, thread: Thread) -> None:
        """It has waited, and goes on. Called in it."""
        ...

    def on_ended(self, thread: Thread, error: BaseException | None) -> None:
        """`error`: one that nobody has caught."""
        ...


class Thread:
    """In place of `threading.Thread`."""

    def __init__(
        self,
        target: Callable[..., object],
        name: str = "thread",
        args: tuple[Any, ...] = (),
        daemon: bool = False,
        *,
        host: ThreadHost | None = None,
    ) -> None:
        """`host`: for the first thread of a process. Others belong to that of their creator."""
        self.name = name
        self.daemon = daemon
        self.host: ThreadHost = host or current().host
        self.locks = 0
        """How many it holds."""
        self.is_over = False
        self._target = partial(target, *args)
        self._code: BlockingCode | None = None
        self._joining: list[Thread] = []
        self._bell: anyio.Event | None = None
        self._is_called = False
        self._refused = 0
        """How often it has tried to wait since it was killed."""

    @property
    def ident(self) -> int | None:
        return None if self._code is None else self._code.thread.ident

    @property
    def real(self) -> threading.Thread | None:
        """As `threading.current_thread` returns it."""
        return None if self._code is None else self._code.thread

    @property
    def is_killed(self) -> bool:
        return self._code is not None and self._code.is_killed

    def start(self) -> None:
        self._code = BlockingCode(self._run, self.host.new_context())
        self.host.on_new_thread(self)
        self.host.spawn(self._code.run)

    def join(self, timeout: float | None = None) -> None:
        wait_until(lambda: self.is_over, self._joining, timeout)

    def _run(self) -> None:
        _local.thread = self
        problem: BaseException | None = None
        try:
            self._target()
        except Killed:
            pass
        except BaseException as error:
            problem = error
        del self._target  # as real threads do: otherwise the arguments live on
        self.is_over = True
        self.host.on_ended(self, problem)
        for other in self._joining:
            other.unpark()

    def unpark(self) -> None:
        """Let it go on, now or when it parks the next time."""
        self._is_called = True
        if self._bell is not None:
            self._bell.set()

    def park(self, until: float | None) -> None:
        """Called in it: wait until another thread unparks it, or until that time. May return earlier."""
        self._die_if_killed()
        if not self._is_called:
            wait_for(partial(self._listen, until))
        self._is_called = False
        self.host.on_resumed(self)

    async def _listen(self, until: float | None) -> None:
        self._bell = anyio.Event()
        with anyio.CancelScope(deadline=inf if until is None else until):
            await self._bell.wait()
        self._bell = None

    def poll(self) -> None:
        """Called in it, where it could wait and doesn't have to."""
        self._die_if_killed()
        self.host.on_resumed(self)

    def on_lock(self) -> None:
        """Called in it, when it takes a lock."""
        if self._refused > _PATIENCE:
            raise Killed

    def _die_if_killed(self) -> None:
        if self.is_killed:
            self._refused += 1
            raise Killed


class Timer(Thread):
    """In place of `threading.Timer`."""

    def __init__(self, interval: float, function: Callable[[], object]) -> None:
        super().__init__(self._wait)
        self._seconds = interval
        self._function = function
        self._is_cancelled = False
        self._waiting: list[Thread] = []

    def cancel(self) -> None:
        self._is_cancelled = True
        for waiting in self._waiting:
            waiting.unpark()

    def _wait(self) -> None:
        if not wait_until(lambda: self._is_cancelled, self._waiting, self._seconds):
            self._function()


_local = threading.local()
"""`thread`: the current one."""


def current_or_none() -> Thread | None:
    """None in the loop of the world, where the garbage collector may run code of any process."""
    return getattr(_local, "thread", None)


def current() -> Thread:
    thread = current_or_none()
    assert thread is not None, "only threads of simulated processes wait"
    return thread


def wait_until(is_so: Callable[[], bool], waiting: list[Thread], seconds: float | None) -> bool:
    """Wait until that is so, or for so long, and return whether it is. The current thread is in `waiting` meanwhile."""
    thread = current()
    until = None if seconds is None else thread.host.now() + seconds
    waiting.append(thread)
    try:
        while not is_so():
            if until is not None and thread.host.now() + _AT_ONCE_S >= until:
                return False
            thread.park(until)
        return True
    finally:
        waiting.remove(thread)


def sleep(seconds: float) -> None:
    """In place of `time.sleep`."""
    wait_until(lambda: False, [], seconds)


class RLock:
    """In place of `threading.RLock`."""

    def __init__(self) -> None:
        self._owner = 0
        self._depth = 0
        self._waiting: list[Thread] = []

    def acquire(self) -> None:
        me, thread = threading.get_ident(), current_or_none()
        if thread is not None:
            thread.on_lock()
        if self._owner not in (0, me):
            wait_until(lambda: self._owner == 0, self._waiting, None)
        self._owner = me
        self._depth += 1
        if thread is not None:
            thread.locks += 1

    def release(self) -> None:
        assert self._owner == threading.get_ident()
        self.give_up(1)

    def give_up(self, depth: int) -> None:
        thread = current_or_none()
        self._depth -= depth
        if thread is not None:
            thread.locks -= depth
        if not self._depth:
            self._owner = 0
            for waiting in self._waiting:
                waiting.unpark()

    def give_up_all(self) -> int:
        """Returns how often it was acquired."""
        depth = self._depth
        self.give_up(depth)
        return depth

    def take_back(self, depth: int) -> None:
        if current().is_killed:  # it won't wait for anything, and does no harm any more
            self._owner = 0
        for _ in range(depth):
            self.acquire()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Condition:
    """In place of `threading.Condition`."""

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._notified = 0
        self._waiting: list[Thread] = []

    def wait(self, timeout: float | None = None) -> bool:
        before, depth = self._notified, self._lock.give_up_all()
        try:
            return wait_until(lambda: self._notified != before, self._waiting, timeout)
        finally:
            self._lock.take_back(depth)

    def notify_all(self) -> None:
        self._notified += 1
        for waiting in self._waiting:
            waiting.unpark()
