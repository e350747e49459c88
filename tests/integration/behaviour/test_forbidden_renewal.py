"""Renewal in a group that forbids it: a refused renewal doesn't end the lock."""

from __future__ import annotations

import anyio
import pytest

from kshare import BrokerError
from kshare.engine.events import Acknowledged, Event
from kshare.protocol.error_codes import ErrorCode
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S, nothing_comes, until

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]


async def test_rule_6_a_refused_renewal_does_not_end_the_lock(
    fresh_queue: FreshQueue,
) -> None:
    """Records that are accepted in time after a refused renewal are settled. (4.1 can't renew at all.)"""
    settings = {"share.record.lock.duration.ms": "3000"}
    queue = fresh_queue(settings=settings)
    if not queue.is_4_1:
        await queue.configure_group({"share.renew.acknowledge.enable": "false"})
    await queue.produce(10)
    events: list[Event] = []
    async with queue.consumer(acknowledgement="explicit", observer=events.append) as source:
        with anyio.fail_after(DEADLINE_S):
            batch = await anext(source.batches())
            if not queue.is_4_1:
                await until(lambda: bool(refusals(events)))
            records = list(batch)
            assert len(records) == 10
            batch.accept()
            assert set((await source.commit()).values()) == {None}
    if not queue.is_4_1:
        assert {error.code for error in refusals(events)} == {ErrorCode.INVALID_RECORD_STATE}
    assert len(refusals(events)) < 5, "the renewal is repeated for every record"
    async with queue.consumer() as source:
        assert await nothing_comes(source)


def refusals(events: list[Event]) -> list[BrokerError]:
    """Errors of renewals that were given up."""
    return [e.error for e in events if isinstance(e, Acknowledged) and isinstance(e.error, BrokerError)]
