"""`kshare worker` in real processes: signals, crashes, orphans, reloading."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kshare import sync
from kshare.testing import Broker
from tests.cli.running import Kshare, assert_refused
from tests.cli.terminals import Terminal
from tests.cli.worker.worker_programs import APP, WorkerProgram

pytestmark = pytest.mark.lengthy

GROUP = "shippers"
SLOW = """
@worker.handler("orders", concurrency=5)
async def ship(value: str):
    say("begin", value)
    await anyio.sleep(0.3)
    say("shipped", value)
"""

# `print` isn't reentrant, and a signal may arrive during one.
OWN_SIGNAL_HANDLER = 'signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"own handler\\n"))\n'


@pytest.fixture
def broker(kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Broker:
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", kshare_broker.bootstrap)
    kshare_broker.create_topic("orders", 1)
    kshare_broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
    return kshare_broker


def app(folder: Path, text: str) -> None:
    (folder / "shop.py").write_text(APP + text)


def shipped(output: str) -> list[str]:
    return re.findall(r"shipped (\d+)", output)


def rest(broker: Broker, count: int) -> list[tuple[str, bool]]:
    """The records that are left, and whether they are redelivered."""
    if not count:
        return []
    found = []
    with sync.ShareConsumer(broker.bootstrap, group=GROUP, topics=["orders"]) as consumer:
        for record in consumer:
            assert record.value is not None
            found.append((record.value.decode(), record.redelivered))
            if len(found) == count:
                return found
    raise AssertionError("the consumer ended")


@pytest.mark.parametrize(
    "options",
    [(), ("--backend", "trio"), ("--workers", "2"), ("--threads", "2"), ("--workers", "2", "--threads", "2")],
    ids=["asyncio", "trio", "processes", "threads", "both"],
)
def test_sigterm_drains_and_nothing_is_redelivered(
    broker: Broker, tmp_path: Path, options: tuple[str, ...]
) -> None:
    app(tmp_path, OWN_SIGNAL_HANDLER + SLOW)
    broker.produce("orders", [b"%d" % number for number in range(100)])
    with WorkerProgram(tmp_path, "shop:worker", *options) as program:
        program.until("shipped")
        assert program.end(signal.SIGTERM) == 0, program.output
    done = shipped(program.output)
    assert "own handler" in program.output
    assert len(done) == program.output.count("begin")
    left = rest(broker, 100 - len(done))
    assert sorted([*map(int, done), *(int(value) for value, _ in left)]) == list(range(100))
    assert not any(is_redelivered for _, is_redelivered in left)


def test_ctrl_c_in_a_terminal_reaches_each_process_once(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it reached them twice, they would cancel their handlers."""
    app(tmp_path, SLOW)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Terminal("worker", "shop", "--workers", "2") as terminal:
        terminal.until("[2] kshare.worker: running")
        broker.produce("orders", [b"1"])
        terminal.until("begin 1")
        terminal.type("\x03")
        assert terminal.end() == 0, terminal.text
        assert "shipped 1" in terminal.text
        assert terminal.text.count("SIGINT: stopping") == 2


def test_a_crashed_process_is_started_again_and_its_records_are_processed(
    broker: Broker, tmp_path: Path
) -> None:
    app(
        tmp_path,
        """
@worker.handler("orders")
async def ship(value: str):
    if not Path("crashed").exists():
        Path("crashed").touch()
        os._exit(7)
    say("shipped", value)
""",
    )
    broker.produce("orders", [b"1"])
    with WorkerProgram(tmp_path, "shop", "--workers", "2") as program:
        program.until("ended with exit code 7: restarting in 1 s")
        if "shipped 1" not in program.output:
            program.until("shipped 1")
        program.until("running: ship")
        assert program.end(signal.SIGTERM) == 0, program.output
    assert shipped(program.output) == ["1"]


def test_after_a_hook_has_failed_a_process_is_started_again(broker: Broker, tmp_path: Path) -> None:
    """The database that it connects to may be back then."""
    app(
        tmp_path,
        """
@worker.on_startup
def connect():
    if Path("crashed").exists() and not Path("refused").exists():
        Path("refused").touch()
        raise ConnectionError("no database")

@worker.handler("orders")
async def ship(value: str):
    if not Path("crashed").exists():
        Path("crashed").touch()
        os._exit(7)
    say("shipped", value)
""",
    )
    broker.produce("orders", [b"1"])
    with WorkerProgram(tmp_path, "shop", "--workers", "1") as program:
        program.until("ConnectionError: no database")
        program.until("ended with exit code 1: restarting in 2 s")
        program.until("shipped 1")
        assert program.end(signal.SIGTERM) == 0, program.output


def test_processes_end_when_the_supervisor_is_killed(broker: Broker, tmp_path: Path) -> None:
    app(tmp_path, SLOW)
    with WorkerProgram(tmp_path, "shop", "--workers", "2") as program:
        program.until("running: ship")
        program.until("running: ship")
        broker.produce("orders", [b"1"])
        program.until("begin 1")
        # `end` reads until all processes have closed their output.
        assert program.end(signal.SIGKILL) == -signal.SIGKILL
    assert "shipped 1" in program.output
    assert program.output.count("SIGTERM: stopping") == 2


def test_signals_while_it_ends_do_not_change_the_exit_code(broker: Broker, tmp_path: Path) -> None:
    app(tmp_path, SLOW)
    codes = []
    for _ in range(4):
        with WorkerProgram(tmp_path, "shop") as program:
            program.until("running: ship")
            with suppress(ProcessLookupError):
                while program.process.poll() is None:
                    program.process.send_signal(signal.SIGINT)
                    time.sleep(0.002)
            codes.append(program.end())
            assert "Traceback" not in program.output
    assert codes == [0, 0, 0, 0]


def test_only_functions_that_still_run_in_threads_are_counted(broker: Broker, tmp_path: Path) -> None:
    app(
        tmp_path,
        """
import threading
import time

@worker.handler("orders", concurrency=8)
def ship(value: str):
    time.sleep(1000 if value == "stuck" else 0.02)
    say("shipped", value)

@worker.on_shutdown
def leave_an_idle_thread():
    threading.Thread(target=time.sleep, args=[0.1], name="AnyIO worker thread").start()
""",
    )
    broker.produce("orders", [b"%d" % number for number in range(40)])
    with WorkerProgram(tmp_path, "shop", "--drain-timeout", "0.1") as program:
        for _ in range(40):
            program.until("shipped ")
        assert program.end(signal.SIGTERM) == 0, program.output
    assert "still running" not in program.output
    broker.produce("orders", [b"stuck", *(b"%d" % number for number in range(40, 60))])
    with WorkerProgram(tmp_path, "shop", "--drain-timeout", "0.1") as program:
        for _ in range(20):
            program.until("shipped ")
        assert program.end(signal.SIGTERM) == 0, program.output
    assert "1 function is still running in threads, and will be ended with this process" in program.output


def test_handlers_are_cancelled_after_the_drain_timeout(broker: Broker, tmp_path: Path) -> None:
    app(tmp_path, SLOW.replace("0.3", "1000"))
    broker.produce("orders", [b"1"])
    with WorkerProgram(tmp_path, "shop", "--drain-timeout", "0.1") as program:
        program.until("begin 1")
        assert program.end(signal.SIGTERM) == 0, program.output
    assert shipped(program.output) == []
    assert rest(broker, 1) == [("1", True)]


def test_a_process_that_does_not_stop_is_ended_at_the_second_signal(broker: Broker, tmp_path: Path) -> None:
    app(
        tmp_path,
        """
@worker.handler("orders")
async def ship(value: str):
    say("begin", value)
    try:
        await anyio.sleep(1000)
    finally:
        say("cancelled")
""",
    )
    broker.produce("orders", [b"1"])
    with WorkerProgram(tmp_path, "shop", "--workers", "1") as program:
        program.until("begin 1")
        program.process.send_signal(signal.SIGTERM)
        program.until("SIGTERM: stopping")
        assert program.end(signal.SIGTERM) == 0, program.output
    assert "cancelled" in program.output
    assert rest(broker, 1) == [("1", True)]


STUCK = """
say("pid", os.getpid())

@worker.handler("orders")
async def ship(value: str):
    say("begin", value)
    try:
        while not Path("may_end").exists():
            await anyio.sleep(0.01)
        say("shipped", value)
    except BaseException:
        say("cancelled", value)
        raise
"""


@pytest.mark.parametrize("is_repeated", [False, True], ids=["once", "again"])
def test_a_signal_to_the_whole_control_group_counts_once(
    broker: Broker, tmp_path: Path, is_repeated: bool
) -> None:
    """systemd sends SIGTERM to all processes of a service."""
    app(tmp_path, STUCK)
    with WorkerProgram(tmp_path, "shop", "--workers", "2", "--drain-timeout", "3600") as program:
        program.until("running: ship")
        program.until("running: ship")
        broker.produce("orders", [b"1"])
        program.until("begin 1")
        processes = [*map(int, re.findall(r"pid (\d+)", program.output)), program.process.pid]

        def signal_all() -> None:
            for process in processes:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGTERM)

        signal_all()
        program.until("SIGTERM: stopping")
        if is_repeated:  # the supervisor may take two for one, unless some time passes between them
            with repeating(signal_all):
                program.until("cancelled 1")
            assert program.end() == 0, program.output
        else:
            for process in processes[:-1]:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGTERM)
            (tmp_path / "may_end").touch()
            assert program.end() == 0, program.output
    assert ("cancelled 1" in program.output, "shipped 1" in program.output) == (is_repeated, not is_repeated)


@contextmanager
def repeating(act: Callable[[], object]) -> Iterator[None]:
    is_over = threading.Event()

    def repeat() -> None:
        while not is_over.wait(0.2):
            act()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


HANGING_HOOK = """
@worker.on_startup
async def connect():
    say("hangs")
    await anyio.sleep(3600)
"""


@pytest.mark.parametrize("option", ["--workers=2", "--reload"])
@pytest.mark.parametrize(
    "text", [HANGING_HOOK, "say('hangs')\ntime.sleep(3600)\n"], ids=["startup hook", "import"]
)
def test_a_signal_ends_processes_that_are_still_starting(
    broker: Broker, tmp_path: Path, option: str, text: str
) -> None:
    app(tmp_path, SLOW + text)
    with WorkerProgram(tmp_path, "shop", option, "--drain-timeout", "3600") as program:
        program.until("hangs")
        assert program.end(signal.SIGTERM) == 0, program.output


def test_a_configuration_that_cannot_work_is_reported_once(broker: Broker, tmp_path: Path) -> None:
    app(tmp_path, "x = nothing")
    with WorkerProgram(tmp_path, "shop", "--workers", "3") as program:
        assert program.end() == 1
    first, second = program.output.splitlines()
    assert first == (
        "kshare: importing shop failed: NameError: name 'nothing' is not defined "
        "(shop.py, line 13, in <module>: x = nothing)"
    )
    assert (
        "worker process 1 ended with exit code 1: not restarted, because it would fail the same way" in second
    )


def test_more_processes_than_a_group_may_have_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app(tmp_path, SLOW)
    with Broker(settings={"group.share.max.size": "2"}, topics={"orders": 1}) as broker:
        monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", broker.bootstrap)
        with WorkerProgram(tmp_path, "shop", "--workers", "3") as program:
            assert program.end() == 1
    text = "kshare: group shippers: 3 processes need 3 members, and brokers allow 2 (group.share.max.size)"
    assert text in program.output


def test_reload_after_changes_also_of_broken_files(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "prices.py").write_text("price = 'one'\n")
    app(tmp_path, "import prices\nsay('price', prices.price)\n" + SLOW)
    with WorkerProgram(tmp_path, "shop", "--reload") as program:
        program.until("price one")
        program.until("running: ship")
        broker.produce("orders", [b"1"])
        program.until("begin 1")
        (tmp_path / "prices.py").write_text("price = (\n")
        program.until("prices.py changed: restarting")
        program.until("kshare: importing shop failed: prices.py, line 1: '(' was never closed")
        program.until("the worker ended with exit code 1: waiting for a change")
        (tmp_path / "prices.py").write_text("price = 'three'\n")
        program.until("price three")
        program.until("running: ship")
        assert program.end(signal.SIGINT) == 0, program.output
    assert shipped(program.output) == ["1"]


def test_reload_waits_for_a_module_that_does_not_exist_yet(broker: Broker, tmp_path: Path) -> None:
    with WorkerProgram(tmp_path, "shop", "--reload") as program:
        program.until("waiting for a change")
        app(tmp_path, SLOW)
        program.until("running: ship")
        assert program.end(signal.SIGTERM) == 0, program.output


def test_a_worker_that_stops_itself_ends_the_program(broker: Broker, tmp_path: Path) -> None:
    app(
        tmp_path,
        """
@worker.handler("orders")
async def ship(value: str):
    worker.stop()
""",
    )
    broker.produce("orders", [b"1"])
    for options in ((), ("--workers", "1")):
        with WorkerProgram(tmp_path, "shop", *options) as program:
            broker.produce("orders", [b"1"])
            assert program.end() == 0, program.output


# --- without processes


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_unreachable_brokers_are_reported(run: Kshare, here: Path, free_tcp_port: int) -> None:
    (here / "far_away.py").write_text(APP + SLOW)
    address = f"127.0.0.1:{free_tcp_port}"
    assert_refused(run("worker", "far_away", "-b", address), 1, f"can't reach {address}: connection refused")


def test_a_misspelt_command_is_refused(run: Kshare) -> None:
    assert_refused(run("worker", "chek", "shop:worker"), 2, "no command 'chek'; did you mean 'check'?")


def test_errors_in_hooks_show_the_line_of_the_user(run: Kshare, here: Path, broker: Broker) -> None:
    hook = '@worker.on_startup\ndef connect(): os.environ["NOT_THERE"]\n'
    (here / "hooked.py").write_text(APP + SLOW + hook)
    done = run("worker", "hooked")
    assert done.code == 1
    assert "kshare: the worker failed: KeyError: 'NOT_THERE' (hooked.py, line " in done.err
    assert 'in connect: def connect(): os.environ["NOT_THERE"])' in done.err


def test_an_app_without_handlers_is_refused(run: Kshare, here: Path) -> None:
    (here / "empty_app.py").write_text(APP)
    done = run("worker", "empty_app:worker", "-b", "localhost:1")
    assert_refused(done, 1, "empty_app:worker has no handlers: decorate functions with @worker.handler")


def test_help_is_shown_without_arguments(run: Kshare) -> None:
    done = run("worker")
    assert (done.code, done.err) == (0, "")
    assert "Usage: kshare worker" in done.out


def test_the_process_ids_differ(broker: Broker, tmp_path: Path) -> None:
    app(tmp_path, SLOW + "say('pid', os.getpid())\n")
    with WorkerProgram(tmp_path, "shop", "--workers", "2") as program:
        pids = {program.until("pid ") for _ in range(2)}
        program.until("running")
        assert program.end(signal.SIGTERM) == 0
    assert len(pids) == 2
    assert f"pid {os.getpid()}\n" not in pids
