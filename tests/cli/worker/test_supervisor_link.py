"""A worker process reports to its supervisor, stops when told to, and ends when the supervisor is gone."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from queue import Queue

import pytest

from kshare.cli.worker.supervision import STOP_GRACE_S
from kshare.cli.worker.supervisor_link import SupervisorLink, end_process
from kshare.worker import Worker

DEADLINE_S = 60.0


class Ended(Exception):
    """The process would have ended here."""


class Ends:
    """A process with its link, and the supervisor's end of it. Signals to the process, and its exits, are noted."""

    def __init__(self) -> None:
        self.supervisor, theirs = socket.socketpair()
        self.signals: Queue[int] = Queue()
        self.exits: Queue[int] = Queue()
        self.gone: Queue[SupervisorLink] = Queue()
        self.link = SupervisorLink(theirs.detach(), reloads=True, on_gone=self.gone.put)

    def tell(self, number: int, *, at_once: bool = False) -> None:
        self.supervisor.sendall(f"{json.dumps({'stop': number, 'at_once': at_once})}\n".encode())

    def exit(self, code: int) -> None:
        self.exits.put(code)
        if threading.current_thread() is threading.main_thread():
            raise Ended


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ends]:
    before = threading.enumerate()
    found = Ends()
    monkeypatch.setattr(os, "_exit", found.exit)
    monkeypatch.setattr(signal, "pthread_kill", lambda _, number: found.signals.put(number))
    yield found
    found.supervisor.close()
    for thread in set(threading.enumerate()) - set(before):
        thread.join(DEADLINE_S)


@pytest.mark.lengthy
def test_messages_are_lines_of_json_and_the_end_of_the_supervisor_is_noticed(ends: Ends) -> None:
    ends.link.report(running=True)
    ends.link.report_files({"a.py"})
    with ends.supervisor, ends.supervisor.makefile() as lines:
        assert json.loads(lines.readline()) == {"running": True}
        assert "a.py" in json.loads(lines.readline())["files"]
    assert ends.gone.get(timeout=DEADLINE_S) is ends.link


def test_a_process_that_does_not_serve_yet_just_ends(ends: Ends) -> None:
    ends.tell(signal.SIGTERM)
    assert ends.exits.get(timeout=DEADLINE_S) == 0
    assert ends.signals.empty()


@pytest.mark.lengthy
def test_a_worker_is_stopped_until_it_has_heard_it(ends: Ends) -> None:
    with ends.link.serving():
        ends.tell(signal.SIGINT)
        for _ in range(2):
            assert ends.signals.get(timeout=DEADLINE_S) == signal.SIGINT
        assert ends.link.stops_per_signal() == 1


def test_signals_from_elsewhere_stop_the_worker_once(ends: Ends) -> None:
    """systemd sends SIGTERM to the process as well as to the supervisor, which passes it on."""
    with ends.link.serving():
        assert [ends.link.stops_per_signal() for _ in range(3)] == [1, 0, 0]
        ends.tell(signal.SIGTERM)
        ends.tell(signal.SIGTERM, at_once=True)  # a second one
        assert ends.signals.get(timeout=DEADLINE_S) == signal.SIGTERM
        assert [ends.link.stops_per_signal() for _ in range(2)] == [1, 0]


def test_both_signals_may_be_heard_at_once(ends: Ends) -> None:
    with ends.link.serving():
        ends.tell(signal.SIGTERM, at_once=True)
        assert ends.signals.get(timeout=DEADLINE_S) == signal.SIGTERM
        assert [ends.link.stops_per_signal() for _ in range(2)] == [2, 0]


def test_a_worker_that_has_stopped_itself_is_not_stopped_again(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Worker, "is_stopping", True)
    ends.link.worker = Worker(group="g")
    assert ends.link.stops_per_signal() == 0


def test_after_the_worker_has_ended_nothing_is_done(ends: Ends) -> None:
    with ends.link.serving():
        pass
    ends.link.want_stop(signal.SIGTERM, at_once=True)
    assert ends.signals.empty()
    assert ends.exits.empty()


def test_a_process_without_a_supervisor_stops_and_ends_if_that_takes_too_long(ends: Ends) -> None:
    ends.supervisor.close()
    ends.gone.get(timeout=DEADLINE_S)
    slept: list[float] = []
    ends.link.worker = Worker(group="g", drain_timeout=5)
    with ends.link.serving(), pytest.raises(Ended):
        end_process(ends.link, slept.append)
    assert ends.signals.get_nowait() == signal.SIGTERM
    assert ends.exits.get_nowait() == 1
    assert sum(slept) == STOP_GRACE_S + 5
    # Now signals to the process count.
    assert [ends.link.stops_per_signal() for _ in range(2)] == [1, 1]


def test_a_process_without_a_supervisor_may_not_have_imported_its_worker(ends: Ends) -> None:
    ends.supervisor.close()
    ends.gone.get(timeout=DEADLINE_S)
    with pytest.raises(Ended):
        end_process(ends.link)
    assert ends.exits.get_nowait() == 0
