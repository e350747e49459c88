"""Options and hooks for all tests: `--long`, `--forbid-skips`, and how tests are distributed to workers."""

from __future__ import annotations

import gc
import re
import signal
import warnings
from collections import Counter
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tools.runs.deselection import deselect

pytest_plugins = [
    "kshare.testing.plugin",
    "tools.runs.deadlines",
    "tools.runs.broker_watch",
    "tools.runs.quick",
    "tools.runs.times",
    "tools.runs.turns",
]

# How long an example takes depends on the machine, so there are no deadlines.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("untimed", _UNTIMED, max_examples=40)
settings.register_profile("thorough", _UNTIMED, max_examples=200)
settings.load_profile("untimed")

_ROOT = Path(__file__).resolve().parent.parent
_RELEASE = re.compile(r"(?<=[\[-])4\.\d\.\d(?=[]-])")
_SIMULATIONS, _PACKAGING = "tests/simulation/test_simulation.py", "tests/test_packaging.py"
SKIPPED = 6
"""The exit code if `--forbid-skips` complains, whether tests failed or not. pytest's own are 0 to 5."""
_ENDED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
_OUTCOMES = pytest.StashKey["_Outcomes"]()


class _Outcomes:
    """Counts passed and skipped tests for --forbid-skips."""

    def __init__(self) -> None:
        self.passed = 0
        self.skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self.skipped.append(report.nodeid)
        elif report.when == "call" and report.passed:
            self.passed += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.skipped.append(report.nodeid)

    def complaints(self) -> Iterator[str]:
        """Why the run fails under --forbid-skips."""
        if self.skipped:
            yield f"{len(self.skipped)} skipped, though skips are forbidden: {', '.join(self.skipped)}"
        if not self.passed:
            yield "no test ran and passed"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forbid-skips", action="store_true", help="fail when a test was skipped or none ran")
    parser.addoption("--long", action="store_true", help="run the tests marked long too")


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell that starts us in the background ignores Ctrl-C, also for every process that a test starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--long"):
        settings.load_profile("thorough")
    if config.getoption("--forbid-skips") and not hasattr(config, "workerinput"):
        outcomes = _Outcomes()
        config.stash[_OUTCOMES] = outcomes
        config.pluginmanager.register(outcomes, "outcomes")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """What is collected stays: the garbage collector needn't look at it, which takes it half a second each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # With several workers, the longest tests shouldn't start last.
    lengthy = Counter(item.path for item in items if item.get_closest_marker("lengthy"))
    items.sort(key=lambda item: (_shared(item.nodeid) is None, -lengthy[item.path]))
    if not config.getoption("--long"):
        _leave_out("long", config, items)
    if not _may_capture(items):
        _leave_out("captures", config, items)
    for marker in _missing(config):
        _leave_out(marker, config, items)


def _missing(config: pytest.Config) -> dict[str, str]:
    """Markers of tests that this machine lacks a program for → what to say about it."""
    from tools import chromium, redis_server

    missing = {}
    if redis_server.found() is None:
        missing["redis"] = redis_server.MISSING
    if chromium.found() is None and not config.getoption("--quick"):  # that leaves them out anyway
        missing["browser"] = chromium.MISSING
    return missing


def _may_capture(items: list[pytest.Item]) -> bool:
    if not any(item.get_closest_marker("captures") for item in items):
        return True
    from tests.capture.loopback import may_capture

    return may_capture()


def _leave_out(marker: str, config: pytest.Config, items: list[pytest.Item]) -> None:
    deselect(config, items, (item for item in items if item.get_closest_marker(marker)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Decides which tests run in the same worker.

    Tests of a Kafka release share its brokers, in two workers; tests of a Spark session share that, in two as well; of
    all other tests, those of a module are run in the same worker.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByBroker(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return _shared(nodeid) or nodeid.partition("::")[0]

        def remove_node(self, node: Any) -> str | None:
            """A test that crashed its worker isn't run again: xdist would rerun it until all workers had crashed."""
            units = self.assigned_work[node].values()
            crashed = next((name for unit in units for name, is_done in unit.items() if not is_done), None)
            for unit in units:
                if crashed in unit:
                    unit[crashed] = True
            super().remove_node(node)
            return crashed

    return ByBroker(config, log)


def _shared(nodeid: str) -> str | None:
    """A name for the brokers or the Spark session that a test uses and that take long to start.

    For tests that take minutes themselves, so that they don't begin last: their module's name, or their own.
    """
    module = nodeid.partition("::")[0]
    if module == _SIMULATIONS:
        return nodeid
    if module == _PACKAGING:
        return module
    if "/spark/" in module:
        return f"spark {Path(module).parent.name}" if _has_session(module) else None
    release = _RELEASE.search(nodeid)
    return f"{release.group()} {'/behaviour/' in module}" if release else None


@cache
def _has_session(module: str) -> bool:
    return "SparkSession" in (_ROOT / module).read_text(encoding="utf-8")


def pytest_sessionfinish(session: pytest.Session) -> None:
    outcomes = session.config.stash.get(_OUTCOMES, None)
    if outcomes is not None and any(outcomes.complaints()) and session.exitstatus in _ENDED:
        session.exitstatus = SKIPPED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for complaint in _missing(config).values():
        terminalreporter.write_line(complaint, yellow=True)
    outcomes = config.stash.get(_OUTCOMES, None)
    if outcomes is not None and not config.option.collectonly:
        for complaint in outcomes.complaints():
            terminalreporter.write_line(f"--forbid-skips: {complaint}", red=True)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Runs every asynchronous test on both."""
    backend: str = request.param
    return backend


@pytest.fixture
def swept() -> Iterator[None]:
    """kafka-python leaves sockets to the garbage collector: collect them here, not in another test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
