"""Plain functions in other processes: signals to the whole process group are for the worker only."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import anyio
import pytest
from anyio import to_process

from kshare.testing import Broker
from kshare.worker.process_calls import call_in_process
from kshare.worker.signals import on_stop_signals
from kshare.worker.user_functions import HandlerExit

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
    time.sleep(3600)  # until a signal ends this process
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


def raises(number: int) -> None:
    raise [SystemExit, KeyboardInterrupt, GeneratorExit][number]


def nothing() -> None: ...


@pytest.mark.anyio
async def test_whatever_a_function_raises_is_its_failure_and_its_process_goes_on() -> None:
    limiter = anyio.CapacityLimiter(1)
    with anyio.fail_after(DEADLINE_S):
        for number, name in enumerate(["SystemExit", "KeyboardInterrupt", "GeneratorExit"]):
            with pytest.raises(HandlerExit, match=f"the handler raised {name}"):
                await call_in_process(raises, (number,), limiter)
        await call_in_process(nothing, (), limiter)


def dies() -> None:
    os._exit(1)


@pytest.mark.anyio
async def test_a_function_that_cannot_be_imported_does_not_disturb_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """anyio would answer it with the result of this one."""
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "only_here.py"
    module.write_text("def ship(): ...")
    ship = importlib.import_module("only_here").ship
    module.unlink()
    limiter = anyio.CapacityLimiter(1)
    with anyio.fail_after(DEADLINE_S):
        with pytest.raises(ModuleNotFoundError, match="only_here"):
            await call_in_process(ship, (), limiter)
        await call_in_process(nothing, (), limiter)


@pytest.mark.anyio
async def test_a_process_that_dies_without_a_signal_to_this_one_is_a_failure() -> None:
    with anyio.fail_after(DEADLINE_S), pytest.raises(anyio.BrokenWorkerProcess):
        await call_in_process(dies, (), anyio.CapacityLimiter(1))


@pytest.mark.anyio
@pytest.mark.usefixtures("default_signals")
async def test_a_process_that_a_signal_has_put_out_of_step_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called: list[object] = []

    async def run_sync(function: object, *arguments: object, **options: object) -> None:
        called.append(function)
        if len(called) == 1:
            with on_stop_signals(lambda which: None):
                signal.raise_signal(signal.SIGINT)
            raise KeyboardInterrupt

    monkeypatch.setattr(to_process, "run_sync", run_sync)
    await call_in_process(nothing, (), anyio.CapacityLimiter(1))
    assert called == [exec, os._exit, exec]
