"""A pytest plugin: `--quick` leaves out tests that need a JVM or a browser or take seconds, and prints how many.

Markers tell what a test needs; tests with a Spark fixture are marked automatically. A test is counted once, under the
first marker that applies. A test that starts a Kafka broker anyway fails.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import settings

from tools.kafka.node import Node
from tools.runs.deselection import deselect

LEFT_OUT = {
    "kafka": "need real Kafka brokers",
    "java": "run Kafka's own Java",
    "spark": "start Spark",
    "browser": "drive a browser",
    "long": "are stress and soak tests",
    "slow": "wait for brokers in real time",
    "lengthy": "take long: builds, whole programs, waits",
}
"""Marker → what its tests do, as printed in the summary."""

EXAMPLES = 25
"""The number of examples of properties that don't set their own; Hypothesis's default is 100."""
_SPARK_FIXTURES = {"spark", "connect_spark", "any_spark"}
_COUNTS = pytest.StashKey[Counter[str]]()
_REPORTED = "left_out_by_quick"
_MODULES = "modules "
"""Before a marker: how many modules were left out for it."""
_MODULE_MARKS = re.compile(r"^pytestmark = (\[[^]]*\]|.*)$", re.MULTILINE)
_MARK = re.compile(r"pytest\.mark\.(\w+)")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="leave out tests that need a JVM or a browser, or take seconds"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_COUNTS] = Counter()
    if config.getoption("--quick"):
        # Test modules are imported later. A number of examples that a test sets itself takes precedence.
        settings.register_profile("quick", settings(), max_examples=EXAMPLES)
        settings.load_profile("quick")
        for name in ("format", "start"):
            setattr(Node, name, _refuse)


def _refuse(*_: object) -> NoReturn:
    raise RuntimeError(
        "--quick starts no Kafka broker: mark the test, or the parameter of its fixture, with kafka"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Don't import modules of which every test is left out: that takes as long as running many of the others."""
    if not config.getoption("--quick") or collection_path.suffix != ".py":
        return None
    found = _MODULE_MARKS.search(collection_path.read_text())
    marks = _MARK.findall(found[0]) if found is not None else ()
    marker = next((marker for marker in LEFT_OUT if marker in marks), None)
    if marker is None:
        return None
    config.stash[_COUNTS][f"{_MODULES}{marker}"] += 1
    return True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--quick"):
        return
    reasons = {item: reason for item in items if (reason := _reason(item)) is not None}
    if reasons:
        config.stash[_COUNTS].update(reasons.values())
        deselect(config, items, reasons)


def _reason(item: pytest.Item) -> str | None:
    """The marker for which a test is left out."""
    if _SPARK_FIXTURES.intersection(getattr(item, "fixturenames", ())):
        item.add_marker("spark")
    return next((marker for marker in LEFT_OUT if item.get_closest_marker(marker)), None)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        counts = session.config.stash[_COUNTS]
        session.config.workeroutput[_REPORTED] = dict(counts)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """All workers have collected the same tests, so the counts of one suffice."""
    counts = getattr(node, "workeroutput", {}).get(_REPORTED)
    if counts:
        node.config.stash[_COUNTS] = Counter(counts)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    counts = config.stash[_COUNTS]
    if config.getoption("--quick"):
        modules = {marker: counts.pop(f"{_MODULES}{marker}", 0) for marker in LEFT_OUT}
        of_modules = f"{sum(modules.values()):,} test modules and " if any(modules.values()) else ""
        if counts or of_modules:
            terminalreporter.write_line(
                f"--quick left out {of_modules}{counts.total():,} {'other ' if of_modules else ''}tests; "
                "tools/test runs them:"
            )
        for marker, reason in LEFT_OUT.items():
            besides = f", and {modules[marker]:,} modules" if modules[marker] else ""
            if counts[marker] or besides:
                terminalreporter.write_line(f"{counts[marker]:>8,} {marker}: {reason}{besides}")
        terminalreporter.write_line(
            f"Properties were tested with {EXAMPLES} examples, unless they set their own number."
        )
