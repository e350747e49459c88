"""What a commit waits for, and what it returns: outcomes and losses, each once."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from kshare import AcknowledgeError, KshareError, RequestTimedOut
from kshare.client.record import ShareRecord
from kshare.engine.confirmation import Confirmation
from kshare.engine.events import Acknowledged, Event, LeaseLost
from kshare.errors import BrokerError
from kshare.state.acks import PartitionAcks
from kshare.state.lease import ACCEPT, RELEASE, Lease
from tests.fakes.tiny_cluster import ACCEPTED, ACQUIRED, TinyCluster
from tests.helpers.consuming import DEADLINE_S, consumer, next_of, until

P = (b"t" * 16, 0)
Q = (b"q" * 16, 0)


def filled(count: int) -> TinyCluster:
    cluster = TinyCluster("t", "u")
    cluster.topics["t"].append(*(b"%d" % number for number in range(count)))
    return cluster


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_continuous_decisions_do_not_delay_commits() -> None:
    async with filled(5000).running() as cluster:
        cluster.delay_s = 0.02
        with anyio.fail_after(DEADLINE_S):
            async with (
                consumer(cluster, "t", acknowledgement="explicit", request_timeout=1.5) as source,
                anyio.create_task_group() as tasks,
            ):
                records: list[ShareRecord] = []
                while len(records) < 3000:
                    records += await source.next_batch()

                async def decide() -> None:
                    """Keep some decided records unconfirmed at all times."""
                    while records:
                        records.pop().accept()
                        await anyio.sleep(0.001)

                tasks.start_soon(decide)
                for _ in range(3):
                    record = records.pop()
                    record.accept()
                    assert await source.commit() == {("t", 0): None}
                    assert cluster.topics["t"].states[record.offset] == ACCEPTED
                tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_concurrent_commits_each_return_their_own_outcomes() -> None:
    async with filled(2).running() as cluster:
        cluster.topics["u"].append(b"u0")
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, "t", "u", acknowledgement="explicit") as source:
                found: dict[tuple[str, int], ShareRecord] = {}
                while len(found) < 3:
                    record = await next_of(source)
                    found[record.topic, record.offset] = record
                results: dict[str, Any] = {}

                async def commit(name: str) -> None:
                    results[name] = await source.commit()

                async with anyio.create_task_group() as tasks:
                    found["t", 0].accept()
                    tasks.start_soon(commit, "first")
                    assert source._holdings is not None
                    commits = source._holdings.book.commits
                    while not results and not commits.is_confirming:
                        await checkpoint()
                    found["u", 0].accept()
                    tasks.start_soon(commit, "second")
                assert results["first"] == {("t", 0): None}
                assert results["second"][("u", 0)] is None
                assert await source.commit() == {}


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_outcomes_of_a_cancelled_commit_are_returned_by_the_next() -> None:
    async with filled(2).running() as cluster:
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, "t", acknowledgement="explicit", request_timeout=5) as source:
                record = await next_of(source)
                record.accept()
                await until(lambda: cluster.topics["t"].states[0] == ACCEPTED)
                other = await next_of(source)
                other.accept()
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await source.commit()
                assert await source.commit() == {("t", 0): None}
                assert await source.commit() == {}


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_commit_without_a_response_times_out() -> None:
    async with filled(1).running() as cluster:
        with anyio.fail_after(DEADLINE_S):
            async with consumer(
                cluster, "t", acknowledgement="explicit", request_timeout=0.3, close_timeout=0.3
            ) as source:
                record = await next_of(source)
                cluster.is_silent = True
                cluster.silent_acks = True
                record.accept()
                with pytest.raises(RequestTimedOut):
                    await source.commit()


# --- losses


@pytest.mark.anyio
@pytest.mark.parametrize("is_batch", [False, True])
async def test_settling_a_lost_record_or_batch_raises(is_batch: bool) -> None:
    events: list[Event] = []
    async with filled(3).running() as cluster:
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, "t", acknowledgement="explicit", observer=events.append) as source:
                batch = await source.next_batch()
                record = next(iter(batch))
                await cluster.hang_up()
                await until(lambda: any(isinstance(event, LeaseLost) for event in events))
                one: Any = batch if is_batch else record
                offsets = r"0\.\.2" if is_batch else "0"
                for settle in (one.accept, one.release, one.reject, one.renew):
                    with pytest.raises(
                        AcknowledgeError, match=rf"t\[0\]@{offsets} can no longer be .*: the sess"
                    ):
                        settle()


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_batch_can_be_settled_after_some_of_its_records() -> None:
    async with filled(3).running() as cluster:
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, "t", acknowledgement="explicit") as source:
                batch = await source.next_batch()
                first, *_ = batch
                first.reject()
                await source.commit()
                batch.accept()
                assert await source.commit() == {("t", 0): None}
                batch.accept()  # all records are accepted already
                assert cluster.topics["t"].states[1:] == [ACCEPTED] * 2


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_commit_returns_losses_of_handed_out_records() -> None:
    events: list[Event] = []
    async with filled(2).running() as cluster:
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, "t", acknowledgement="explicit", observer=events.append) as source:
                await next_of(source)
                await cluster.hang_up()
                await until(
                    lambda: (
                        cluster.topics["t"].deliveries[0] > 1 or ACQUIRED not in cluster.topics["t"].states
                    )
                )
                await until(lambda: any(isinstance(event, LeaseLost) for event in events))
                results = await source.commit()
                assert isinstance(results[("t", 0)], AcknowledgeError)
                assert "t[0]" in str(results[("t", 0)])
                assert await source.commit() == {}


@pytest.mark.anyio
async def test_commit_returns_losses_that_no_error_was_raised_for() -> None:
    """An error was raised for another record of the same lease."""
    events: list[Event] = []
    async with filled(3).running() as cluster:
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, "t", acknowledgement="explicit", observer=events.append) as source:
                records = [*await source.next_batch()]
                await cluster.hang_up()
                await until(lambda: any(isinstance(event, LeaseLost) for event in events))
                with pytest.raises(AcknowledgeError):
                    records[1].accept()
                results = await source.commit()
                assert isinstance(results[("t", 0)], AcknowledgeError)


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_late_record_loop_gets_an_outcome_instead_of_an_exception() -> None:
    events: list[Event] = []
    outcomes: list[Acknowledged] = []
    async with filled(2).running() as cluster:
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, "t", on_settled=outcomes.append, observer=events.append) as source:
                records = aiter(source)
                assert (await anext(records)).offset == 0
                await cluster.hang_up()
                await until(lambda: any(isinstance(event, LeaseLost) for event in events))
                await source.commit()
                again = await anext(records)
                assert (again.offset, again.delivery_count) == (0, 2)
                late = [(outcome.topic, list(outcome.ranges()), type(outcome.error)) for outcome in outcomes]
                assert late == [("t", [(0, 0, "accept")], BrokerError)]
                assert isinstance((await source.commit())[("t", 0)], KshareError)


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_confirmed_redeliveries_supersede_refusals() -> None:
    events: list[Event] = []
    outcomes: list[Acknowledged] = []
    async with filled(2).running() as cluster:
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, "t", on_settled=outcomes.append, observer=events.append) as source:
                records = aiter(source)
                late = await anext(records)
                await cluster.hang_up()
                await until(lambda: any(isinstance(event, LeaseLost) for event in events))
                with pytest.raises(AcknowledgeError):
                    late.accept()
                for offset in range(2):
                    again = await anext(records)
                    assert again.offset == offset
                    again.accept()
                # The loop has reported the lost record, in words for users.
                assert [str(outcome.error) for outcome in outcomes if outcome.error] == [
                    "acknowledgement refused: INVALID_RECORD_STATE "
                    "(the lock expired, or the record was settled before; redelivered unless settled)"
                ]
                assert await source.commit() == {("t", 0): None}


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_late_batch_loop_gets_an_outcome_instead_of_an_exception() -> None:
    events: list[Event] = []
    outcomes: list[Acknowledged] = []
    async with filled(2).running() as cluster:
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, "t", on_settled=outcomes.append, observer=events.append) as source:
                batches = source.batches()
                assert len(await anext(batches)) == 2
                await cluster.hang_up()
                await until(lambda: any(isinstance(event, LeaseLost) for event in events))
                await anext(batches)
                assert [list(outcome.ranges()) for outcome in outcomes] == [[(0, 1, "accept")]]


# --- without a cluster


def decided(*spans: tuple[int, int]) -> Lease:
    lease = Lease(P, 0, 99, 1)
    for first, last in spans:
        for offset in range(first, last + 1):
            lease.decide(offset, ACCEPT)
    return lease


def test_later_decisions_are_not_waited_for() -> None:
    lease = decided((0, 9))
    waits = Confirmation([lease])
    lease.decide(10, RELEASE)
    assert not waits.is_settled
    assert not waits.on_outcome(P, [(10, 10)], None)
    assert waits.on_outcome(P, [(0, 4), (6, 9)], None)
    assert not waits.is_settled
    assert not waits.on_outcome(Q, [(5, 5)], None)
    assert waits.on_outcome(P, [(5, 5)], BrokerError(121, "x"))
    assert waits.is_settled
    assert isinstance(waits.results[P], BrokerError)


def test_records_that_end_without_an_outcome_are_not_waited_for() -> None:
    lease = decided((3, 4))
    acks = PartitionAcks(P)
    acks.add(lease)
    waits = Confirmation([lease])
    acks.lose()
    assert waits.is_settled


@given(st.lists(st.booleans(), min_size=20, max_size=20), st.lists(st.booleans(), min_size=20, max_size=20))
def test_outcomes_remove_exactly_their_offsets(pending: list[bool], responded: list[bool]) -> None:
    lease = Lease(P, 0, 19, 1)
    for offset, is_pending in enumerate(pending):
        if is_pending:
            lease.decide(offset, ACCEPT)
    waits = Confirmation([lease])
    ranges = [(offset, offset) for offset, is_so in enumerate(responded) if is_so]
    ours = waits.on_outcome(P, ranges, None)
    both = [a and b for a, b in zip(pending, responded, strict=True)]
    assert [offset for first, last in ours for offset in range(first, last + 1)] == [
        offset for offset, is_so in enumerate(both) if is_so
    ]
    assert waits.is_settled == (not any(a and not b for a, b in zip(pending, responded, strict=True)))
