"""A pytest plugin: of a test that takes turns, a run has one parameter, another each day. `--long` runs all of them.

`@pytest.mark.takes_turns("backend")` names the parameter. It is for tests that take long and hardly differ by it. Tests
that are marked `lengthy` and run on both event loops take turns on the loops, unless they use real brokers.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from typing import Any
from zlib import crc32

import pytest

from tools.runs.deselection import deselect

_LEFT_OUT = pytest.StashKey[int]()
_LOOP = "anyio_backend"
_TURN, _REPORTED = "turn", "left_out_by_turns"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--turn",
        type=int,
        default=date.today().toordinal(),
        help="with which parameter tests run that take turns: a number, which a run tells at its end",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "takes_turns(parameter): runs with one value of it each day; tools/test --long runs all"
    )
    config.stash[_LEFT_OUT] = 0


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """All processes have to choose the same tests, also if the next day begins."""
    node.workerinput[_TURN] = node.config.getoption("--turn")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    turn = getattr(config, "workerinput", {}).get(_TURN, config.getoption("--turn"))
    values: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    places = {item: place for item in items if (place := _place(item)) is not None}
    for test, value in places.values():
        if value not in values[test]:
            values[test].append(value)
    left_out = [
        item
        for item, (test, value) in places.items()
        if value != values[test][(turn + crc32(repr(test).encode())) % len(values[test])]
    ]
    config.stash[_LEFT_OUT] = len(left_out)
    deselect(config, items, left_out)


def _place(item: pytest.Item) -> tuple[tuple[str, ...], str] | None:
    """A test with its other parameters, and the value that takes turns. None if there is none.

    By their ids, which are the same in all processes.
    """
    parameters = getattr(item, "callspec", None)
    if parameters is None:
        return None
    name = _LOOP if item.get_closest_marker("lengthy") and not item.get_closest_marker("kafka") else None
    if (marker := item.get_closest_marker("takes_turns")) is not None:
        (name,) = marker.args
    if name is None:
        return None
    value = str(parameters.params.get(name, ""))
    test, _, rest = item.nodeid.partition("[")
    ids = rest.removesuffix("]").split("-")
    if value not in ids:
        if marker is not None:
            raise pytest.UsageError(
                f"{item.nodeid} can't take turns: its id doesn't have the value of {name}"
            )
        return None
    ids.remove(value)
    return (test, *ids), value


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_REPORTED] = session.config.stash[_LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    node.config.stash[_LEFT_OUT] = getattr(node, "workeroutput", {}).get(_REPORTED, 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if (count := config.stash[_LEFT_OUT]) and not config.getoption("--quick"):
        terminalreporter.write_line(
            f"{count:,} tests had their turn on another day; this was --turn {config.getoption('--turn')}, "
            "and tools/test --long runs all."
        )
