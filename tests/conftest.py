"""What holds for every test: long ones only when asked for, and a run that proves nothing isn't green."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

pytest_plugins = ["kshare.testing.plugin"]

_OUTCOMES = pytest.StashKey["_Outcomes"]()


class _Outcomes:
    """Counts what a run under --forbid-skips must know."""

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
        """Why the run proves less than it should."""
        if self.skipped:
            yield f"{len(self.skipped)} skipped, though skips are forbidden: {', '.join(self.skipped)}"
        if not self.passed:
            yield "no test ran and passed"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forbid-skips", action="store_true", help="fail when a test was skipped or none ran")
    parser.addoption("--long", action="store_true", help="run the tests marked long too")


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Who starts us in the background turns Ctrl-C off, for every process that a test starts, too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--forbid-skips") and not hasattr(config, "workerinput"):
        outcomes = _Outcomes()
        config.stash[_OUTCOMES] = outcomes
        config.pluginmanager.register(outcomes, "outcomes")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.pluginmanager.hasplugin("xdist"):
        _share_out(items)
    if config.getoption("--long"):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


def _share_out(items: list[pytest.Item]) -> None:
    """Which tests stay together where several processes share the run.

    One process starts each release of Kafka, one Spark, one makes what a module shares. The releases take longest, so
    they begin.
    """
    groups = {id(item): _release(item) for item in items}
    items.sort(key=lambda item: groups[id(item)] is None)
    for item in items:
        where = item.path.parent if item.path.parent.name == "spark" else item.path
        item.add_marker(pytest.mark.xdist_group(groups[id(item)] or str(where)))


def _release(item: pytest.Item) -> str | None:
    """Of the real broker that it runs on, if it shares one."""
    broker = item.callspec.params.get("kafka") if hasattr(item, "callspec") else None
    return broker if broker != "embedded" else None


def pytest_sessionfinish(session: pytest.Session) -> None:
    outcomes = session.config.stash.get(_OUTCOMES, None)
    if outcomes is not None and any(outcomes.complaints()) and not session.exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    outcomes = config.stash.get(_OUTCOMES, None)
    if outcomes is not None and not config.option.collectonly:
        for complaint in outcomes.complaints():
            terminalreporter.write_line(f"--forbid-skips: {complaint}", red=True)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every asynchronous test runs on both."""
    backend: str = request.param
    return backend
