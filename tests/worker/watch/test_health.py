"""When a worker is live and ready, and the state of its handlers."""

from __future__ import annotations

import json

import pytest

from kshare.worker.rules.breaker import BreakerState
from kshare.worker.watch.counts import Counts
from kshare.worker.watch.health import (
    UNREACHABLE_AFTER_S,
    HandlerHealth,
    HandlerState,
    Progress,
    WorkerHealth,
    WorkerState,
    handler_state,
    health_page,
)


def handler(*, unheard_s: float = 1.0, breaker: BreakerState = BreakerState.CLOSED) -> HandlerHealth:
    return HandlerHealth(
        handler="ship",
        group="g",
        topics=("orders",),
        state=handler_state(is_stopping=False, is_paused=False, breaker=breaker),
        breaker=breaker,
        running=1,
        ready=2,
        held=3,
        counts=Counts(done=4),
        last_progress=5.0,
        unheard_s=unheard_s,
    )


@pytest.mark.parametrize(
    ("state", "is_live", "is_ready"),
    [
        (WorkerState.STOPPED, False, False),
        (WorkerState.STARTING, True, False),
        (WorkerState.RUNNING, True, True),
        (WorkerState.DRAINING, True, False),
    ],
)
def test_a_worker_is_ready_while_it_runs(state: WorkerState, is_live: bool, is_ready: bool) -> None:
    health = WorkerHealth(state, (handler(),))
    assert (health.is_live, health.is_ready) == (is_live, is_ready)
    assert health.reason == ("" if is_ready else f"the worker is {state}")


def test_a_worker_that_no_broker_responds_to_is_not_ready() -> None:
    quiet = handler(unheard_s=UNREACHABLE_AFTER_S + 10)
    assert WorkerHealth(WorkerState.RUNNING, (quiet, handler())).is_ready
    alone = WorkerHealth(WorkerState.RUNNING, (quiet, handler(unheard_s=UNREACHABLE_AFTER_S)))
    assert alone.reason == "no broker has responded for 30 s"


def test_an_open_breaker_is_reported_but_the_worker_is_ready() -> None:
    health = WorkerHealth(WorkerState.RUNNING, (handler(breaker=BreakerState.OPEN),))
    assert health.is_ready
    assert health.handlers[0].state is HandlerState.BREAKER_OPEN


def test_state_of_a_handler() -> None:
    def state(breaker: BreakerState, *, is_paused: bool = False, is_stopping: bool = False) -> HandlerState:
        return handler_state(is_stopping=is_stopping, is_paused=is_paused, breaker=breaker)

    assert state(BreakerState.CLOSED) is HandlerState.RUNNING
    assert state(BreakerState.HALF_OPEN) is HandlerState.BREAKER_OPEN
    assert state(BreakerState.OPEN, is_paused=True) is HandlerState.PAUSED
    assert state(BreakerState.CLOSED, is_paused=True, is_stopping=True) is HandlerState.STOPPING


def test_page_is_json() -> None:
    page = json.loads(json.dumps(health_page(WorkerHealth(WorkerState.RUNNING, (handler(),)))))
    assert page["state"] == "running"
    assert page["handlers"][0]["counts"]["done"] == 4
    assert page["handlers"][0]["topics"] == ["orders"]


def test_progress_is_the_time_of_the_last_change() -> None:
    progress, counts = Progress(), Counts()
    progress.note(counts, 1.0)
    assert progress.at == 0.0
    counts.done += 1
    progress.note(counts, 2.0)
    progress.note(counts, 3.0)
    assert progress.at == 2.0
