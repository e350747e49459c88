"""Deliveries: what they tell, and what a handler may decide, from the event loop or a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio import from_thread, to_thread

from kshare import AcknowledgeError, ConfigError, KshareError
from kshare.client.made_records import made_record
from kshare.client.record import lease_of
from kshare.state.lease import ACCEPT, HELD, RELEASE, RENEW
from kshare.worker import Delivery
from kshare.worker.records.delivery import set_caller
from kshare.worker.records.headers import RetryContext
from kshare.worker.rules.decision import ACCEPT as ACCEPTED
from kshare.worker.rules.decision import Decision, RecordOutcome

CONTEXT = RetryContext(
    topic="orders",
    partition=2,
    offset=70,
    group="g",
    timestamp=1234,
    attempts=3,
    due_ms=0,
    error="ValueError",
)


def delivery(*, count: int = 1, context: RetryContext | None = None, allowed: int = 5) -> Delivery:
    headers = [("trace", b"1"), *(context.headers() if context else [])]
    record = made_record(
        "orders" if context is None else "orders.retry.1m",
        b"value",
        key=b"key",
        headers=headers,
        offset=5,
        timestamp=1000,
        delivery_count=count,
    )
    return Delivery(record, "g", allowed, context)


def state(one: Delivery) -> int:
    return lease_of(one.record.batch).states[0]


def test_fields_are_those_of_the_record() -> None:
    one = delivery()
    assert (one.topic, one.partition, one.offset, one.timestamp) == ("orders", 0, 5, 1000)
    assert (one.key, one.value, one.headers) == (b"key", b"value", [("trace", b"1")])
    assert (one.delivery_count, one.attempt, one.redelivered, one.is_last_attempt) == (1, 1, False, False)
    assert repr(one) == "Delivery(orders[0]@5, attempt 1)"


def test_copy_has_the_fields_and_the_attempts_of_its_original() -> None:
    one = delivery(count=2, context=CONTEXT)
    assert (one.topic, one.partition, one.offset, one.timestamp) == ("orders", 2, 70, 1234)
    assert (one.headers, one.delivery_count, one.attempt) == ([("trace", b"1")], 2, 4)
    assert (one.redelivered, one.is_last_attempt) == (True, False)


def test_accepting_settles_at_once() -> None:
    one = delivery()
    one.accept()
    assert (one.decision, one.is_settled, state(one)) == (ACCEPTED, True, ACCEPT)


@pytest.mark.parametrize(
    ("decide", "decision"),
    [
        (Delivery.release, Decision(RecordOutcome.RELEASED)),
        (lambda one: one.release(delay=2.5), Decision(RecordOutcome.HELD, 2.5)),
        (
            lambda one: one.reject("no such customer"),
            Decision(RecordOutcome.REJECTED, reason="no such customer"),
        ),
    ],
)
def test_other_decisions_wait_for_the_end_of_the_handler(
    decide: Callable[[Delivery], None], decision: Decision
) -> None:
    one = delivery()
    decide(one)
    assert (one.decision, state(one)) == (decision, HELD)


ACTS: list[Callable[[Delivery], None]] = [Delivery.accept, Delivery.release, Delivery.reject]


@pytest.mark.parametrize("first", ACTS)
@pytest.mark.parametrize("second", ACTS)
def test_second_decision_is_refused(
    first: Callable[[Delivery], None], second: Callable[[Delivery], None]
) -> None:
    one = delivery()
    first(one)
    decision, before = one.decision, state(one)
    with pytest.raises(KshareError, match=rf"Delivery\(orders\[0\]@5, attempt 1\) is {decision} already"):
        second(one)
    assert (one.decision, state(one)) == (decision, before)


@pytest.mark.parametrize("delay", [-1, 86_401, "1", True, float("nan")])
def test_invalid_delays_are_refused_and_decide_nothing(delay: Any) -> None:
    one = delivery()
    with pytest.raises(ConfigError, match="delay must be between 0 and 86,400 seconds"):
        one.release(delay=delay)
    assert one.decision is None


def test_reason_must_be_text() -> None:
    one = delivery()
    with pytest.raises(ConfigError, match="reason must be a string, not ValueError"):
        one.reject(ValueError("x"))  # type: ignore[arg-type]
    assert one.decision is None


def test_renewing_is_no_decision() -> None:
    one = delivery()
    one.renew()
    assert (one.decision, state(one)) == (None, RENEW)
    one.accept()
    assert state(one) == ACCEPT


def test_record_whose_lock_was_lost_cannot_be_accepted() -> None:
    one = delivery()
    lease_of(one.record.batch).lose()
    with pytest.raises(AcknowledgeError):
        one.accept()
    assert one.decision is None


@pytest.mark.parametrize("act", [Delivery.accept, Delivery.renew])
def test_call_from_a_thread_that_comes_too_late_settles_nothing(act: Callable[[Delivery], None]) -> None:
    one = delivery()

    def call(settle: Callable[[], None]) -> None:
        set_caller(one, None)  # the handler is cancelled
        one.record.release()
        settle()

    set_caller(one, call)
    with pytest.raises(KshareError, match="its handler was cancelled"):
        act(one)
    assert (one.decision, state(one)) == (None, RELEASE)


@pytest.mark.anyio
async def test_from_a_thread_records_are_settled_in_the_event_loop() -> None:
    one = delivery()
    called: list[Callable[[], None]] = []

    def call(act: Callable[[], None]) -> None:
        called.append(act)
        from_thread.run_sync(act)

    set_caller(one, call)
    with anyio.fail_after(10):
        await to_thread.run_sync(one.renew)
        await to_thread.run_sync(one.accept)
    assert (len(called), state(one)) == (2, ACCEPT)
