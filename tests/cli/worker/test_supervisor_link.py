"""A worker process reports to its supervisor, and ends itself when the supervisor is gone."""

from __future__ import annotations

import json
import os
import signal
import socket
from queue import Queue

import pytest

from kshare.cli.worker.supervision import STOP_GRACE_S
from kshare.cli.worker.supervisor_link import SupervisorLink, end_process
from kshare.worker import Worker


class Ended(Exception):
    """The process would have ended here."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Signals that were sent, times slept, and the exit code."""
    found: list[object] = []

    def end(code: int) -> None:
        found.append(code)
        raise Ended

    monkeypatch.setattr(os, "kill", lambda _, number: found.append(signal.Signals(number)))
    monkeypatch.setattr(os, "_exit", end)
    return found


def test_a_process_without_a_supervisor_stops_and_ends_if_that_takes_too_long(calls: list[object]) -> None:
    with pytest.raises(Ended):
        end_process(Worker(group="g", drain_timeout=5), calls.append)
    assert calls == [signal.SIGTERM, STOP_GRACE_S + 5, 1]


def test_it_may_not_have_imported_its_worker(calls: list[object]) -> None:
    with pytest.raises(Ended):
        end_process(None, calls.append)
    assert calls == [signal.SIGTERM, STOP_GRACE_S, 1]


def test_a_process_that_stops_already_gets_no_second_signal(
    calls: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Worker, "is_stopping", True)
    with pytest.raises(Ended):
        end_process(Worker(group="g", drain_timeout=5), calls.append)
    assert calls == [STOP_GRACE_S + 5, 1]


def test_messages_are_lines_of_json_and_the_end_of_the_supervisor_is_noticed() -> None:
    ours, theirs = socket.socketpair()
    gone: Queue[Worker | None] = Queue()
    link = SupervisorLink(theirs.detach(), reloads=True, on_gone=gone.put)
    link.worker = worker = Worker(group="g")
    link.report(running=True)
    link.report_files({"a.py"})
    with ours, ours.makefile() as lines:
        assert json.loads(lines.readline()) == {"running": True}
        assert "a.py" in json.loads(lines.readline())["files"]
    assert gone.get(timeout=60) is worker
