"""A pytest plugin that says at the end of a long run where its time went: which modules took most, and each worker.

Processor time is that of the tests' process and of the programs that it has waited for. Brokers that serve several
modules are counted where they end.
"""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field

import pytest

LONG_S = 300.0
"""Shorter runs say nothing."""
SHOWN = 100
"""How many modules."""
_TIMES = pytest.StashKey["_Times"]()


def _processor_s() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


@dataclass
class _Spent:
    tests: int = 0
    waited_s: float = 0.0
    processor_s: float = 0.0
    ended: float = 0.0

    def add(self, report: pytest.TestReport) -> None:
        self.ended = time.monotonic()
        self.tests += report.when == "call"
        self.waited_s += report.duration
        self.processor_s += getattr(report, "processor_s", 0.0)

    def __str__(self) -> str:
        return f"{self.waited_s:>7,.0f} s {self.processor_s:>7,.0f} s {self.tests:>6,}"


@dataclass(eq=False)
class _Times:
    """In the process that runs tests, it measures; in the one that reports, it adds up."""

    began: float = field(default_factory=time.monotonic)
    processor_s: float = field(default_factory=_processor_s)
    modules: dict[str, _Spent] = field(default_factory=lambda: defaultdict(_Spent))
    workers: dict[str, _Spent] = field(default_factory=lambda: defaultdict(_Spent))

    def lap(self) -> float:
        """Processor time since the last call."""
        before, self.processor_s = self.processor_s, _processor_s()
        return self.processor_s - before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        report.processor_s = self.lap()  # type: ignore[attr-defined]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.modules[report.nodeid.partition("::")[0]].add(report)
        self.workers[getattr(report, "worker_id", "")].add(report)

    def lines(self) -> list[str]:
        """Nothing for a short run."""
        if time.monotonic() - self.began < LONG_S:
            return []
        most = sorted(self.modules.items(), key=lambda module: -module[1].waited_s)[:SHOWN]
        last = max(spent.ended for spent in self.workers.values())
        workers = [
            f"{spent} {name or 'this process'}, which ended {last - spent.ended:,.0f} s before the last one"
            for name, spent in sorted(self.workers.items())
        ]
        return ["   time, processor, tests", *workers, *(f"{spent} {name}" for name, spent in most)]


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TIMES] = times = _Times()
    config.pluginmanager.register(times, "times")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = config.stash[_TIMES].lines()
    if lines:
        terminalreporter.section("where the time went")
    for line in lines:
        terminalreporter.write_line(line)
