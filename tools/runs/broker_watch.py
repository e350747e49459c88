"""A pytest plugin that detects brokers which stop responding, replaces them, and reports them at the end of the run.

Every broker of this process is checked before each test, and when a test has failed. If one doesn't respond, its thread
dump, log and settings are kept. Then every fixture is torn down, so that the brokers are killed and the next test
starts new ones. A test that failed because of it is run once more, and its first failure counts as "rerun".
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tools.kafka import running
from tools.kafka.health import complaint, keep_evidence
from tools.runs import deadlines

FOLDER = "stopped-brokers"
"""In the checkout. Each run with a stopped broker creates a folder in it."""
RERUN = "rerun"
_STORY = "story.json"
_WORKER_KEY = "kshare_stopped_brokers"


@dataclass(slots=True)
class Story:
    """The report about one broker."""

    broker: str
    problem: str
    threads: str
    folder: str
    test: str
    """The test that was running, or the last one before, when the problem was detected."""
    has_failed: bool
    """Whether that test failed because of it."""
    replaced: bool = True
    reruns: dict[str, str] = field(default_factory=dict)
    """The outcomes of tests that were run again."""

    def keep(self) -> None:
        path = Path(self.folder) / _STORY
        path.write_text(json.dumps(asdict(self), indent=2), encoding="utf-8")

    def __str__(self) -> str:
        when = "during" if self.has_failed else "during or after"
        reruns_text = "no test was run again"
        if self.reruns:
            outcomes = ", ".join(f"{test} {outcome}" for test, outcome in self.reruns.items())
            reruns_text = f"{_number(len(self.reruns), 'test')} run again: {outcomes}"
        became = "it was replaced" if self.replaced else "its process of the run was ended with it"
        return (
            f"{self.broker}: {self.problem} {when} {self.test}; {became}; {self.threads}; "
            f"thread dump and logs are in {self.folder}; {reruns_text}"
        )


class BrokerWatch:
    """Watches the brokers, in the process that runs the tests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._current: list[Story] = []
        """Reports about brokers that stopped during the current test."""
        self._last_test = "the first test"
        self._is_second_run = False
        deadlines.before_exit.append(self._on_exit)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        self._current, self._is_second_run = [], False
        if self._check_brokers(self._last_test, has_failed=False):
            self._replace(item, self._current)
        self._current, self._last_test = [], item.nodeid
        runtestprotocol(item, nextitem=nextitem)
        if self._current:
            stories, self._is_second_run = self._current, True
            self._current = []
            self._replace(item, stories)
            reports = runtestprotocol(item, nextitem=nextitem)
            for story in stories:
                story.reruns[item.nodeid] = "failed" if any(report.failed for report in reports) else "passed"
                story.keep()
            if self._current:
                self._replace(item, self._current)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """If a broker doesn't respond, a failure doesn't count as one of the test, but only once per test."""
        report = yield
        if report.failed:
            if not self._current:
                self._check_brokers(item.nodeid, has_failed=True)
            if self._current and not self._is_second_run:
                report.outcome = RERUN
                report.sections += [("Broker that stopped responding", str(story)) for story in self._current]
        return report

    def _replace(self, item: pytest.Item, stories: list[Story]) -> None:
        """Tear down all fixtures, so that the next test which needs a broker starts a new one."""
        problem = _tear_down_fixtures(item.session)
        for story in stories:
            story.problem += problem
            story.keep()
        deadlines.start_again(item)

    def _check_brokers(self, test: str, *, has_failed: bool) -> bool:
        """Check all brokers. Returns whether any has to be replaced."""
        for cluster, node in running.expected_nodes():
            problem = complaint(node)
            if problem:
                self._note(cluster, node, problem, test, has_failed)
        return bool(self._current)

    def _note(
        self,
        cluster: running.WatchedCluster,
        node: running.WatchedNode,
        problem: str,
        test: str,
        has_failed: bool,
    ) -> None:
        stamp = time.strftime("%H%M%S")
        folder = self._folder / f"{stamp}-{cluster.release}-node-{node.id}-{uuid.uuid4().hex[:4]}"
        threads = keep_evidence(node, folder)
        broker = f"Kafka {cluster.release}, node {node.id}"
        story = Story(broker, problem, threads, str(folder), test, has_failed)
        story.keep()
        self._current.append(story)

    def _on_exit(self, item: pytest.Item) -> None:
        """Called before this process is ended with its brokers, so that no test can be run again here."""
        known_count = len(self._current)
        self._check_brokers(item.nodeid, has_failed=True)
        for story in self._current[known_count:]:
            story.replaced = False
            story.keep()


class Storyteller:
    """Prints the reports, in the process that reports the run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[_WORKER_KEY] = str(self._folder)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        stories = list(self._collected())
        if not stories:
            return
        count = _number(len(stories), "broker")
        terminalreporter.section(f"{count} stopped responding", sep="=", yellow=True)
        for story in stories:
            terminalreporter.write_line(str(story), yellow=True)

    def _collected(self) -> Iterator[Story]:
        for path in sorted(self._folder.glob(f"*/{_STORY}")):
            yield Story(**json.loads(path.read_text(encoding="utf-8")))


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", None)
    if worker is None:
        run = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:4]}"
        folder = config.rootpath / FOLDER / run
        config.pluginmanager.register(Storyteller(folder), "broker storyteller")
    else:
        folder = Path(worker[_WORKER_KEY])
    config.pluginmanager.register(BrokerWatch(folder), "broker watch")


def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport,
) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    if report.outcome == RERUN:
        return RERUN, "R", ("RERUN", {"yellow": True})
    return None


def _tear_down_fixtures(session: pytest.Session) -> str:
    """Tear down all fixtures, including those of the session, because they may depend on the stopped broker.

    A fixture may fail because of the broker. That isn't a test failure: a text about it is returned.
    """
    try:
        session._setupstate.teardown_exact(None)
    except (Exception, BaseExceptionGroup, pytest.fail.Exception) as problem:
        return f"; a fixture failed when it was torn down: {problem!r}"
    return ""


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
