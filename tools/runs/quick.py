"""A pytest plugin: `--quick` leaves out the tests that need a JVM or take seconds each, and says which those were.

What a test needs is known from its markers; whoever takes a fixture with Spark in it is marked by that. A test is
counted once, under the first marker that applies.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings

LEFT_OUT = {
    "kafka": "need real Kafka brokers",
    "java": "run Kafka's own Java",
    "spark": "start Spark",
    "long": "are storms and soaks",
    "slow": "wait for brokers in real time",
    "lengthy": "take seconds each: builds, whole programs, waits",
}
"""Marker → what its tests do, as the summary says it."""

EXAMPLES = 25
"""Of each property that says no number of its own; Hypothesis's own choice is 100."""
_SPARK_FIXTURES = {"spark", "connect_spark", "any_spark"}
_COUNTS = pytest.StashKey[Counter[str]]()
_REPORTED = "left_out_by_quick"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="leave out what needs a JVM or takes seconds: the inner loop"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_COUNTS] = Counter()
    if config.getoption("--quick"):
        # Test modules are imported later; the number that a test gives for itself holds.
        settings.register_profile("quick", settings(), max_examples=EXAMPLES)
        settings.load_profile("quick")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--quick"):
        return
    reasons = {item: reason for item in items if (reason := _reason(item)) is not None}
    if reasons:
        config.stash[_COUNTS].update(reasons.values())
        config.hook.pytest_deselected(items=list(reasons))
        items[:] = [item for item in items if item not in reasons]


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
    """Every worker has collected the same tests: what one says holds for all."""
    counts = getattr(node, "workeroutput", {}).get(_REPORTED)
    if counts:
        node.config.stash[_COUNTS] = Counter(counts)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    counts = config.stash[_COUNTS]
    if config.getoption("--quick"):
        terminalreporter.write_line(f"--quick left out {counts.total():,} tests; tools/test runs them:")
        for marker, what in LEFT_OUT.items():
            if counts[marker]:
                terminalreporter.write_line(f"{counts[marker]:>8,} {marker}: {what}")
        terminalreporter.write_line(
            f"Properties were tried with {EXAMPLES} examples, where they ask for no number."
        )
