"""When worker processes are started, signalled, killed and given up."""

from __future__ import annotations

import signal

from kshare.cli.worker.supervision import STOP_GRACE_S, Kill, Say, Start, Stop, Supervision, WorkerAction


def acts(actions: list[WorkerAction]) -> list[WorkerAction]:
    """Without what is said."""
    return [action for action in actions if not isinstance(action, Say)]


def said(actions: list[WorkerAction]) -> str:
    return "; ".join(action.text for action in actions if isinstance(action, Say))


def running(count: int, *, reloads: bool = False) -> Supervision:
    supervision = Supervision(count, reloads=reloads)
    supervision.begin(0)
    for slot in range(count):
        supervision.on_running(slot, 0)
        supervision.on_drain_timeout(slot, 10)
    return supervision


def test_the_others_are_started_when_the_first_one_is_running() -> None:
    supervision = Supervision(3)
    assert supervision.begin(0) == [Start(0)]
    assert supervision.on_running(0, 1) == [Start(1), Start(2)]
    assert supervision.on_running(1, 2) == []


def test_if_the_first_one_never_runs_it_gives_up() -> None:
    supervision = Supervision(3)
    supervision.begin(0)
    actions = supervision.on_exit(0, 1, 1)
    assert acts(actions) == []
    assert said(actions) == "worker process 1 ended with exit code 1: not restarted, because it has never run"
    assert supervision.is_over
    assert supervision.has_failed


def test_a_crashed_process_is_started_again_after_pauses_that_double() -> None:
    supervision, now, pauses = running(2), 0.0, []
    for _ in range(7):
        actions = supervision.on_exit(1, -signal.SIGSEGV, now)
        assert acts(actions) == []
        due = supervision.next_due
        assert due is not None
        pauses.append(due - now)
        assert supervision.on_time(due - 0.1) == []
        assert supervision.on_time(due) == [Start(1)]
        now = due
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    assert "worker process 2 was ended by SIGSEGV: restarting in 30 s" in said(actions)
    assert not supervision.has_failed


def test_a_minute_of_life_resets_the_pause() -> None:
    supervision = running(1)
    supervision.on_exit(0, 1, 1)
    supervision.on_time(2)
    supervision.on_exit(0, 1, 3)
    supervision.on_time(5)
    supervision.on_exit(0, 1, 5 + 60)
    assert supervision.next_due == 5 + 60 + 1


def test_what_cannot_succeed_is_not_started_again_and_the_others_go_on() -> None:
    supervision = running(2)
    actions = supervision.on_exit(0, 1, 1, is_hopeless=True)
    assert (acts(actions), supervision.next_due) == ([], None)
    assert "not restarted, because it would fail the same way" in said(actions)
    assert not supervision.is_over
    supervision.on_signal(signal.SIGTERM, 2)
    supervision.on_exit(1, 0, 3)
    assert (supervision.is_over, supervision.has_failed) == (True, True)


def test_a_process_that_stops_itself_is_not_started_again() -> None:
    supervision = running(2)
    assert acts(supervision.on_exit(0, 0, 1)) == []
    assert acts(supervision.on_exit(1, 0, 1)) == []
    assert (supervision.is_over, supervision.has_failed) == (True, False)


def test_each_signal_is_passed_on_once_and_drained_processes_end_well() -> None:
    supervision = running(2)
    assert supervision.on_signal(signal.SIGTERM, 1) == [Stop(0, signal.SIGTERM), Stop(1, signal.SIGTERM)]
    assert acts(supervision.on_exit(0, 0, 2)) == []
    assert supervision.on_signal(signal.SIGINT, 3) == [Stop(1, signal.SIGINT, at_once=True)]
    supervision.on_exit(1, 0, 4)
    assert (supervision.is_over, supervision.has_failed) == (True, False)


def test_what_outlives_its_drain_timeout_is_killed() -> None:
    supervision = running(1)
    supervision.on_signal(signal.SIGTERM, 1)
    assert supervision.next_due == 1 + 10 + STOP_GRACE_S
    actions = supervision.on_time(1 + 10 + STOP_GRACE_S)
    assert acts(actions) == [Kill(0)]
    assert supervision.next_due is None
    assert "was ended by SIGKILL while it was stopping" in said(supervision.on_exit(0, -9, 40))
    assert supervision.has_failed


def test_a_second_signal_shortens_the_wait() -> None:
    supervision = running(1)
    supervision.on_signal(signal.SIGTERM, 1)
    supervision.on_signal(signal.SIGTERM, 2)
    assert supervision.next_due == 2 + STOP_GRACE_S


def test_a_process_that_is_starting_is_told_at_once_and_only_then() -> None:
    supervision = Supervision(2)
    supervision.begin(0)
    assert supervision.on_signal(signal.SIGTERM, 1) == [Stop(0, signal.SIGTERM)]
    assert supervision.on_running(0, 1.5) == []
    assert supervision.on_exit(0, 0, 2) == []
    assert (supervision.is_over, supervision.has_failed) == (True, False)


def test_a_process_that_does_not_start_and_has_to_be_killed_has_failed() -> None:
    supervision = Supervision(1)
    supervision.begin(0)
    supervision.on_drain_timeout(0, 10)
    supervision.on_signal(signal.SIGTERM, 1)
    assert acts(supervision.on_time(1 + 10 + STOP_GRACE_S)) == [Kill(0)]
    supervision.on_exit(0, -signal.SIGKILL, 32)
    assert (supervision.is_over, supervision.has_failed) == (True, True)


def test_a_process_that_is_starting_is_killed_at_the_second_signal() -> None:
    supervision = Supervision(1)
    supervision.begin(0)
    supervision.on_signal(signal.SIGTERM, 1)
    assert supervision.on_signal(signal.SIGTERM, 2) == [Kill(0)]
    assert supervision.on_exit(0, -signal.SIGKILL, 2) == []
    assert (supervision.is_over, supervision.has_failed) == (True, False)


def test_a_change_while_a_process_starts_kills_it_and_starts_it_again() -> None:
    supervision = Supervision(1, reloads=True)
    supervision.begin(0)
    assert supervision.on_change(1) == [Kill(0)]
    assert supervision.on_exit(0, -signal.SIGKILL, 1) == [Start(0)]


def test_a_process_that_waits_for_its_restart_ends_with_the_signal() -> None:
    supervision = running(1)
    supervision.on_exit(0, 1, 1)
    assert supervision.on_signal(signal.SIGTERM, 1) == []
    assert (supervision.is_over, supervision.next_due) == (True, None)


def test_a_change_restarts_what_is_running() -> None:
    supervision = running(1, reloads=True)
    assert supervision.on_change(1) == [Stop(0, signal.SIGTERM)]
    assert supervision.on_change(1.5) == []
    assert supervision.on_exit(0, 0, 2) == [Start(0)]
    assert supervision.next_due is None


def test_while_reloading_a_failure_waits_for_a_change() -> None:
    supervision = Supervision(1, reloads=True)
    supervision.begin(0)
    actions = supervision.on_exit(0, 1, 1, is_hopeless=True)
    assert said(actions) == "the worker ended with exit code 1: waiting for a change"
    assert (supervision.is_over, supervision.next_due) == (False, None)
    assert supervision.on_change(5) == [Start(0)]


def test_a_process_that_does_not_stop_for_a_reload_is_killed_and_started_again() -> None:
    supervision = running(1, reloads=True)
    supervision.on_change(1)
    assert acts(supervision.on_time(1 + 10 + STOP_GRACE_S)) == [Kill(0)]
    assert supervision.on_exit(0, -9, 40) == [Start(0)]


def test_a_signal_during_a_reload_ends_it() -> None:
    supervision = running(1, reloads=True)
    supervision.on_change(1)
    assert supervision.on_signal(signal.SIGINT, 2) == [Stop(0, signal.SIGINT)]
    assert supervision.on_change(2) == []
    supervision.on_exit(0, 0, 3)
    assert supervision.is_over
