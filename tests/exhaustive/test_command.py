"""`python -m tests.exhaustive`: what it prints, and which sizes it refuses."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.exhaustive import __main__ as command
from tests.exhaustive.explorer import Broken
from tests.exhaustive.runs import Run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--members 0", "'0' isn't a whole number of at least 1"),
        ("--records 0", "'0' isn't a whole number of at least 1"),
        ("--faults -1", "'-1' isn't a whole number of at least 0"),
        ("--run nothing", "invalid choice"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(
    arguments: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["", *arguments.split()])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_what_breaks_a_promise_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def explore(run: Run, tell: Callable[[int, int], None]) -> None:
        tell(12_000, 3)
        raise Broken("a record is lost", ["node 1 responds to A", "the leader moves"])

    monkeypatch.setattr(sys, "argv", ["", "--run", "sessions"])
    monkeypatch.setattr(Run, "explore", explore)
    assert command.main() == 1
    printed = capsys.readouterr()
    assert printed.out.endswith(
        "sessions: a record is lost, after 2 events:\n   1. node 1 responds to A\n   2. the leader moves\n"
    )
    assert printed.err == "sessions: 12,000 states so far, 3 still to be explored\n"
