"""Which thread runs the loop: the waiting one, the background thread or another; signals; closing."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType

import anyio
import pytest

from kshare.errors import KshareError
from kshare.sync import shared_loop
from kshare.sync.shared_loop import LoopClosed, SharedLoop
from kshare.sync.signals import SignalsPutOff

DEADLINE_S = 60.0


class User:
    def on_taken(self) -> None:
        pass

    def on_run(self) -> None:
        pass

    def on_free(self) -> None:
        pass


@pytest.fixture
def loop() -> Iterator[SharedLoop]:
    made = SharedLoop(User())
    yield made
    made.close()


async def where() -> threading.Thread:
    await asyncio.sleep(0)
    return threading.current_thread()


def in_thread(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def until(condition: Callable[[], object]) -> None:
    for _ in range(int(DEADLINE_S / 0.005)):
        if condition():
            return
        threading.Event().wait(0.005)
    raise TimeoutError


def test_the_waiting_thread_runs_the_loop(loop: SharedLoop) -> None:
    assert loop.run(where) is threading.current_thread()
    assert not loop.is_run_here


@pytest.mark.lengthy
def test_the_background_thread_runs_the_loop_until_another_thread_needs_it(loop: SharedLoop) -> None:
    """Tasks in the loop continue: here, one that sleeps."""
    ticked = threading.Event()

    async def begin() -> None:
        async def tick() -> None:
            await asyncio.sleep(0.05)
            ticked.set()

        tasks.append(asyncio.create_task(tick()))

    tasks: list[object] = []
    loop.run(begin)
    assert ticked.wait(DEADLINE_S)
    for _ in range(20):
        until(lambda: loop.runner)
        assert loop.run(where) is threading.current_thread()


def test_the_first_thread_runs_the_call_of_a_second_one(loop: SharedLoop) -> None:
    release = asyncio.Event()

    async def wait() -> None:
        await release.wait()

    async def set_it() -> threading.Thread:
        release.set()
        return threading.current_thread()

    first = in_thread(lambda: loop.run(wait))
    until(lambda: loop.runner == first.ident)
    assert loop.run(set_it) is first
    first.join(DEADLINE_S)
    assert not first.is_alive()


def test_a_second_thread_runs_the_loop_when_the_first_leaves(loop: SharedLoop) -> None:
    first_may_leave, second_may_leave = asyncio.Event(), asyncio.Event()
    first = in_thread(lambda: loop.run(first_may_leave.wait))
    until(lambda: loop.runner == first.ident)
    second = in_thread(lambda: loop.run(second_may_leave.wait))
    loop.call_soon(first_may_leave.set)
    first.join(DEADLINE_S)
    until(lambda: loop.runner == second.ident)
    loop.call_soon(second_may_leave.set)
    second.join(DEADLINE_S)
    assert not second.is_alive()


@pytest.mark.lengthy
def test_many_threads_receive_their_own_results(loop: SharedLoop) -> None:
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    wrong: list[int] = []

    def work(begin: int) -> None:
        wrong.extend(
            number
            for number in range(begin, begin + 300)
            if loop.run(lambda number=number: double(number)) != 2 * number  # type: ignore[misc]
        )

    threads = [in_thread(lambda begin=1000 * turn: work(begin)) for turn in range(4)]  # type: ignore[misc]
    for thread in threads:
        thread.join(DEADLINE_S)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_calls_in_async_code_are_run_by_the_background_thread(loop: SharedLoop, backend: str) -> None:
    async def blocking() -> threading.Thread:
        return loop.run(where)

    assert anyio.run(blocking, backend=backend).name == "kshare client"


def test_errors_are_raised_to_the_caller(loop: SharedLoop) -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        loop.run(fail)


def test_closing_raises_in_waiting_threads() -> None:
    loop = SharedLoop(User())
    told: list[BaseException] = []

    def wait() -> None:
        try:
            loop.run(asyncio.Event().wait)
        except LoopClosed as error:
            told.append(error)

    waiting = in_thread(wait)
    until(lambda: loop.runner == waiting.ident)
    closing = in_thread(loop.close)
    waiting.join(DEADLINE_S)
    closing.join(DEADLINE_S)
    assert len(told) == 1
    with pytest.raises(LoopClosed):
        loop.run(where)


class Interrupted(BaseException):
    pass


def interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted


@pytest.fixture
def on_signal() -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, interrupt)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.lengthy
@pytest.mark.usefixtures("on_signal")
def test_a_signal_handler_raises_in_the_caller_and_never_in_a_task(loop: SharedLoop) -> None:
    """The main thread runs the loop, a task in it is always busy, and signals arrive at any time."""
    hurt: list[BaseException] = []

    async def be_busy() -> None:
        try:
            while True:
                sum(range(100))
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            hurt.append(error)

    async def begin() -> None:
        tasks.append(asyncio.create_task(be_busy()))

    tasks: list[asyncio.Task[None]] = []
    loop.run(begin)
    main = threading.main_thread().ident
    assert main is not None
    interrupted = 0
    for _ in range(30):
        try:
            # Sent from within the loop, so that no signal arrives outside of this `try`.
            kill = threading.Timer(0.01, lambda: loop.call_soon(lambda: os.kill(os.getpid(), signal.SIGUSR1)))
            kill.start()
            loop.run(asyncio.Event().wait)
        except Interrupted:
            interrupted += 1
        kill.join()
    assert interrupted == 30
    assert hurt == []
    assert not tasks[0].done()
    assert signal.getsignal(signal.SIGUSR1) is interrupt
    assert loop.run(where) is threading.main_thread()


def test_a_signal_handler_that_returns_interrupts_nothing(loop: SharedLoop) -> None:
    called: list[bool] = []
    release = asyncio.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        called.append(loop.is_run_here)
        loop.call_soon(release.set)

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        loop.call_soon(lambda: os.kill(os.getpid(), signal.SIGUSR1))
        loop.run(release.wait)
        assert called == [False]
        assert signal.getsignal(signal.SIGUSR1) is handle
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_forked_process_can_neither_use_nor_break_the_loop(loop: SharedLoop) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            loop.run(where)
        except KshareError as error:
            os.write(writer, str(error).encode())
        loop.close()
        os._exit(0)
    os.close(writer)
    assert b"was opened before this process was forked off" in os.read(reader, 1000)
    os.close(reader)
    os.waitpid(child, 0)
    until(lambda: loop.runner)
    assert loop.run(where) is threading.current_thread()


def test_an_exception_thrown_into_a_callback_is_raised_to_the_caller(loop: SharedLoop) -> None:
    """As `PyThreadState_SetAsyncExc` does, which interrupts whatever the thread is running."""

    def interrupted() -> None:
        raise LookupError("thrown")

    with pytest.raises(LookupError, match="thrown"):
        loop.take_turn(interrupted)
    loop.call_soon(interrupted)
    with pytest.raises(LookupError, match="thrown"):
        loop.run(where)
    assert loop.run(where)


@pytest.mark.usefixtures("on_signal")
def test_a_signal_may_arrive_when_another_thread_has_just_closed_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = SharedLoop(User())

    def close_and_signal() -> bool:
        """Called while signals are put off."""
        monkeypatch.undo()
        in_thread(loop.close).join()
        os.kill(os.getpid(), signal.SIGUSR1)
        return False

    monkeypatch.setattr(shared_loop, "_is_in_async_code", close_and_signal)
    with pytest.raises(Interrupted):
        loop.run(where)


@pytest.mark.usefixtures("on_signal")
def test_signals_are_put_off_though_garbage_puts_them_off_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector ends loops that were left, at any allocation."""

    def replace(put_off: SignalsPutOff, number: int, handler: object) -> None:
        before(put_off, number, handler)
        if number == signal.SIGUSR1 and put_off is outer:
            with SignalsPutOff(lambda: None):
                pass

    before = SignalsPutOff._replace
    monkeypatch.setattr(SignalsPutOff, "_replace", replace)
    noted: list[bool] = []
    outer = SignalsPutOff(lambda: noted.append(True))
    with pytest.raises(Interrupted), outer:
        signal.raise_signal(signal.SIGUSR1)
    assert noted == [True]
    assert signal.getsignal(signal.SIGUSR1) is interrupt


def test_signals_that_arrive_a_thousand_times_are_handled_once(loop: SharedLoop) -> None:
    """While a callback blocks the loop, for example."""
    called: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: called.append(number))

    def block() -> None:
        for _ in range(2000):
            os.kill(os.getpid(), signal.SIGUSR1)
            sum(range(100))

    try:
        assert loop.take_turn(block)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert called == [signal.SIGUSR1]


def test_it_runs_while_another_thread_imports_trio(loop: SharedLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trio", ModuleType("trio"))
    assert loop.run(where) is threading.current_thread()


@pytest.mark.lengthy
@pytest.mark.usefixtures("on_signal")
def test_the_error_of_an_interrupted_call_is_not_logged(
    loop: SharedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody asks for it. Asyncio would log it with a traceback, as that of a task that was forgotten."""

    async def fail() -> None:
        try:
            os.kill(os.getpid(), signal.SIGUSR1)
            await asyncio.sleep(DEADLINE_S)
        finally:
            raise OSError("no broker")

    with pytest.raises(Interrupted):
        loop.run(fail)
    loop.run(where)
    gc.collect()
    assert caplog.text == ""
