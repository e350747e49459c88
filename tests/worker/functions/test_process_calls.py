"""Plain functions in other processes: signals to the whole process group are for the worker only."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from kshare.testing import Broker
from kshare.worker.functions.process_calls import ProcessCalls
from kshare.worker.functions.user_functions import HandlerExit

pytestmark = pytest.mark.lengthy

DEADLINE_S = 60.0

SHOP = """
import os, time
from pathlib import Path

from kshare.worker import Retry, Worker

worker = Worker(os.environ["BOOTSTRAP"], group="g", retry=Retry(attempts=1), dead_letters="dead", drain_timeout=3600)

def ship(value: bytes) -> None:
    with open("begun", "a") as file:
        file.write("once ")
    while not Path("may_end").exists():
        time.sleep(0.01)
    Path("done").touch()

worker.handler("orders", runs_in="process")(ship)
"""
PROGRAM = """
import logging, sys, time
from pathlib import Path

if __name__ == "__main__":
    import shop
    logging.basicConfig(level="INFO")
    shop.worker.run(backend=sys.argv[1])
elif HANGS and not Path("starting").exists():
    Path("starting").touch()
    while not Path("may_end").exists():
        time.sleep(0.01)
"""


def wait_for(file: Path) -> None:
    until = time.monotonic() + DEADLINE_S
    while not file.exists():
        assert time.monotonic() < until, f"there is no {file.name}"
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("hangs", [False, True], ids=["while-it-runs", "while-the-process-starts"])
def test_what_has_begun_is_finished_after_a_signal_to_all_processes(
    kshare_broker: Broker, tmp_path: Path, number: signal.Signals, backend: str, hangs: bool
) -> None:
    kshare_broker.create_topic("orders", 1)
    kshare_broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
    kshare_broker.produce("orders", [b"1"])
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "program.py").write_text(f"HANGS = {hangs}\n{PROGRAM}")
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    environment = {"BOOTSTRAP": kshare_broker.bootstrap, "PYTHONPATH": paths}
    with subprocess.Popen(
        [sys.executable, "program.py", backend],
        cwd=tmp_path,
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as program:
        watchdog = threading.Timer(DEADLINE_S, program.kill)
        watchdog.start()
        wait_for(tmp_path / ("starting" if hangs else "begun"))
        os.killpg(program.pid, number)
        assert program.stderr is not None
        printed = ""
        for line in program.stderr:
            printed += line
            if f"{number.name}: stopping" in line:
                (tmp_path / "may_end").touch()
        watchdog.cancel()
    assert program.returncode == 0, printed
    assert (tmp_path / "done").exists(), printed
    assert (tmp_path / "begun").read_text() == "once ", printed
    assert kshare_broker.records("dead") == []


@asynccontextmanager
async def calls(most: int = 1) -> AsyncIterator[ProcessCalls]:
    made = ProcessCalls(most)
    try:
        with anyio.fail_after(DEADLINE_S):
            yield made
    finally:
        await made.close()


def raises(number: int) -> None:
    raise [SystemExit, KeyboardInterrupt, GeneratorExit][number]


def nothing() -> None: ...


@pytest.mark.anyio
async def test_whatever_a_function_raises_is_its_failure_and_its_process_goes_on() -> None:
    async with calls() as processes:
        for number, name in enumerate(["SystemExit", "KeyboardInterrupt", "GeneratorExit"]):
            with pytest.raises(HandlerExit, match=f"the handler raised {name}"):
                await processes.call(raises, (number,))
        await processes.call(nothing, ())


def dies() -> None:
    os._exit(1)


@pytest.mark.anyio
async def test_a_function_that_cannot_be_imported_does_not_disturb_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "only_here.py"
    module.write_text("def ship(): ...")
    ship = importlib.import_module("only_here").ship
    module.unlink()
    async with calls() as processes:
        with pytest.raises(ModuleNotFoundError, match="only_here"):
            await processes.call(ship, ())
        await processes.call(nothing, ())


@pytest.mark.anyio
async def test_a_process_that_dies_is_a_failure_of_its_call_only() -> None:
    async with calls() as processes:
        with pytest.raises(anyio.BrokenWorkerProcess, match="has died"):
            await processes.call(dies, ())
        await processes.call(nothing, ())


def append(file: str, text: str) -> None:
    with Path(file).open("a") as opened:
        opened.write(text)


def forks(file: str, number: int, how: str) -> None:
    """The other process ends at once; this function only when it has written its number."""
    child = os.fork()
    if child == 0:
        if how == "exit":
            sys.exit()
        if how == "raise":
            raise ValueError("of the other process")
        return
    os.waitpid(child, 0)
    append(file, f"{number} ")


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["exit", "raise", "return"])
async def test_a_process_that_a_function_has_forked_does_not_response_for_it(
    tmp_path: Path, how: str
) -> None:
    file = tmp_path / "ended"
    async with calls() as processes:
        for number in range(5):
            await processes.call(forks, (str(file), number, how))
            assert file.read_text().split()[-1] == str(number), "it has returned before its function has"


def prints(number: int) -> None:
    sys.stdout.write(f"printed {number}\n")
    subprocess.run(["echo", f"by another program {number}"], check=True)
    assert sys.stdin.read() == "", "what the worker reads isn't for functions"


@pytest.mark.anyio
async def test_what_a_function_prints_is_shown_and_disturbs_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with calls() as processes:
        for number in range(3):
            await processes.call(prints, (number,))
    expected = [f"printed {number}\nby another program {number}\n" for number in range(3)]
    assert capfd.readouterr().out == "".join(expected)


def pid_to(file: str) -> None:
    Path(file).write_text(str(os.getpid()))
    time.sleep(DEADLINE_S)


@pytest.mark.anyio
async def test_a_cancelled_call_ends_its_process(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    async with calls() as processes:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(processes.call, pid_to, (str(file),))
            while not (file.exists() and file.read_text()):
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        while is_running(int(file.read_text())):
            await anyio.sleep(0.01)
        await processes.call(nothing, ())


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def pid_at_once(file: str) -> None:
    append(file, f"{os.getpid()} ")


@pytest.mark.anyio
async def test_processes_are_kept_until_they_are_closed_or_idle_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pids"
    async with calls() as processes:
        for idle_s in (300.0, 300.0, 0.0):
            monkeypatch.setattr("kshare.worker.functions.process_calls._IDLE_S", idle_s)
            await processes.call(pid_at_once, (str(file),))
        first, second, third = map(int, file.read_text().split())
        assert first == second != third
        assert not is_running(first)
        assert is_running(third)
    assert not is_running(third)


MAIN_PROGRAM = """
import sys
from kshare.testing import run_worker
from kshare.worker import Retry, Worker

class NeverAgain(Exception):
    def __init__(self, order, why):
        super().__init__(f"{order}: {why}")

worker = Worker(group="g", retry=Retry(attempts=5, delay=3600, never=(NeverAgain,)), dead_letters="dead")

@worker.handler("orders", runs_in="process")
def ship(value: bytes) -> None:
    raise NeverAgain(value.decode(), "unknown")

if __name__ == "__main__":
    with run_worker(worker, backend=sys.argv[1]) as running:
        running.produce("orders", b"7")
        running.wait_until(lambda: bool(running.records("dead")))
        print(dict(running.records("dead")[0].headers)["__dlq.errors.exception"].decode())
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_exceptions_of_the_main_program_are_recognized(tmp_path: Path, backend: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(MAIN_PROGRAM)
    ended = subprocess.run(
        [sys.executable, str(program), backend],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ended.stdout.split() == ["NeverAgain"], ended.stderr
