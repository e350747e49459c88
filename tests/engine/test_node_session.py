"""One broker's task: it settles every record even if connections fail, and hands out no accepted record twice."""

from __future__ import annotations

from collections import Counter

import anyio
import pytest
from anyio import lowlevel
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kshare.client.record import lease_of
from kshare.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest
from kshare.state.processing_rate import INITIAL_TARGET
from kshare.state.request_planner import BUSY_WAIT_MS, LINGER_S
from tests.fakes.fetching import accept_all, running
from tests.fakes.tiny_broker import ACCEPTED, ARCHIVED, PARTITION, TinyBroker

pytestmark = pytest.mark.anyio


async def test_every_record_is_delivered_once_without_failures() -> None:
    broker = TinyBroker(1000)
    async with running(broker) as rig:
        seen = await accept_all(rig, broker)
    assert seen == Counter(range(1000))
    assert set(broker.states) == {ACCEPTED}
    assert broker.deliveries == [1] * 1000


async def test_acknowledgements_are_sent_with_fetches() -> None:
    broker = TinyBroker(1000)
    async with running(broker, max_records=200) as rig:
        await accept_all(rig, broker)
    with_acks = [request for request in broker.requests if any(t.partitions for t in request.topics)]
    alone = [request for request in with_acks if isinstance(request, ShareAcknowledgeRequest)]
    assert len(alone) < len(with_acks) / 2


@pytest.mark.lengthy
async def test_acknowledgements_are_sent_with_fetches_in_long_runs() -> None:
    """Some decision is always pending then, so the delay must count from the last one sent, not from the first ever."""
    broker = TinyBroker(60_000)
    async with running(broker, max_records=100) as rig:
        until, count = anyio.current_time() + 3 * LINGER_S, 0
        while count < 6000 or anyio.current_time() < until:
            for record in await rig.next_batch():
                record.accept()
                count += 1
                await lowlevel.checkpoint()
    alone = [request for request in broker.requests if isinstance(request, ShareAcknowledgeRequest)]
    assert len(alone) <= 0.1 * len(broker.requests)


@pytest.mark.lengthy
async def test_fetch_waits_no_longer_than_the_records_in_hand_take() -> None:
    """They may lock all that the broker has, and their acknowledgement must not wait behind this fetch."""
    broker = TinyBroker(20_000)
    async with running(broker, max_records=2000) as rig:
        await accept_all(rig, broker)
    waits = [request.max_wait_ms for request in broker.requests if isinstance(request, ShareFetchRequest)]
    assert min(waits) < BUSY_WAIT_MS


async def test_no_more_than_max_records_are_held() -> None:
    broker = TinyBroker(500)
    async with running(broker, max_records=50) as rig:
        batch = await rig.next_batch()
        for _ in range(20):
            await anyio.sleep(0.001)
            assert broker.states.count("acquired") <= 50
        batch.accept()
        await accept_all(rig, broker)


async def test_requested_acknowledgement_is_sent_at_once() -> None:
    broker = TinyBroker(10)
    async with running(broker) as rig:
        (await rig.next_batch()).accept()
        with rig.holdings.book.commits.confirming():
            rig.node.flush()
            acknowledgement, _ = broker.begun
            assert isinstance(acknowledgement, ShareAcknowledgeRequest), (
                "it was sent before any other task ran"
            )
            rig.node.flush()
            assert broker.begun[0] is acknowledgement, "one request at a time"
            await anyio.wait_all_tasks_blocked()
            assert set(broker.states) == {ACCEPTED}


async def test_last_acknowledgement_has_response_before_the_session_ends() -> None:
    broker = TinyBroker(10)
    async with running(broker) as rig:
        (await rig.next_batch()).accept()
        with rig.holdings.book.commits.confirming():
            rig.node.flush()
            rig.node.stop()
            rig.node.flush()
    assert [type(request) for request in broker.requests[1:]] == [ShareAcknowledgeRequest] * 2
    assert not broker.requests[-1].topics, "the closing request has no acknowledgements left"
    assert list(rig.holdings.book.commits.results.values()) == [None]


async def test_flush_sends_nothing_after_a_failure() -> None:
    """The task pauses after a failure: a waiting commit mustn't send requests to a failing broker at every turn."""
    broker = TinyBroker(10, cut={0: "before"})
    async with running(broker) as rig:
        rig.holdings.waiters = 1
        rig.holdings.book.changed.send()
        while not broker.requests:
            await lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        begun = broker.begun
        rig.node.flush()
        assert broker.begun is begun
        rig.holdings.waiters = 0
        await accept_all(rig, broker)


async def test_released_records_are_redelivered_with_a_higher_count() -> None:
    broker = TinyBroker(10)
    async with running(broker) as rig:
        first = await rig.next_batch()
        first.release()
        again = await rig.next_batch()
        assert again.delivery_count == 2
        assert [record.redelivered for record in again] == [True] * 10
        again.accept()
        await accept_all(rig, broker)


async def test_redelivered_record_is_settled_together_with_its_original_batch() -> None:
    """It has its own lease then, within the range of the older one. The ranges must ascend all the same."""
    broker = TinyBroker(3)
    async with running(broker) as rig:
        first = await rig.next_batch()
        before, released, behind = first
        released.release()
        again = await rig.next_batch()
        for record in (behind, before, *again):
            record.accept()
        await accept_all(rig, broker)
    assert broker.deliveries == [1, 2, 1]
    assert set(broker.states) == {ACCEPTED}


async def test_rejected_records_are_not_redelivered() -> None:
    broker = TinyBroker(10)
    async with running(broker) as rig:
        (await rig.next_batch()).reject()
        await accept_all(rig, broker)
    assert set(broker.states) == {ARCHIVED}


async def test_closing_releases_unsettled_records() -> None:
    broker = TinyBroker(100)
    async with running(broker, max_records=100) as rig:
        for record in await rig.next_batch():
            if record.offset < 10:
                record.accept()
    assert [state == ACCEPTED for state in broker.states] == [offset < 10 for offset in range(100)]
    assert "acquired" not in broker.states
    assert broker.requests[-1].share_session_epoch == -1


async def test_rule_3_records_of_a_lost_idle_session_are_lost() -> None:
    broker = TinyBroker(10)
    async with running(broker) as rig:
        batch = await rig.next_batch()
        broker.disconnect()
        rig.node.on_connection_closed("the broker restarted")
        assert not lease_of(batch).decide(0, 1)
        again = await rig.next_batch()
        assert again.delivery_count == 2
        again.accept()
        await accept_all(rig, broker)


@pytest.mark.lengthy
async def test_few_records_are_held_after_a_loss_until_some_are_processed() -> None:
    """Otherwise, five losses in a row would archive thousands of records that no user has seen."""
    broker = TinyBroker(5000)
    async with running(broker, max_records=2000) as rig:
        while rig.holdings.processing_rate.target < 1000:
            (await rig.next_batch()).accept()
        broker.disconnect()
        rig.node.on_connection_closed("the broker restarted")
        before = len(broker.requests)
        batch = await rig.next_batch()
        fetches = [request for request in broker.requests[before:] if isinstance(request, ShareFetchRequest)]
        assert max(fetch.max_records for fetch in fetches) <= INITIAL_TARGET
        batch.accept()
        await accept_all(rig, broker)


async def test_records_accepted_before_a_disconnect_are_not_handed_out_again() -> None:
    broker = TinyBroker(10, cut={1: "before"})
    async with running(broker) as rig:
        (await rig.next_batch()).accept()
        seen = await accept_all(rig, broker)
    assert seen == Counter()
    assert rig.holdings.skipped == 10
    assert len(rig.holdings.memory) == 0
    assert broker.deliveries == [2] * 10


@pytest.mark.lengthy
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(
    st.dictionaries(st.integers(0, 40), st.sampled_from(["before", "after"]), max_size=12),
    st.integers(10, 120),
)
async def test_every_record_is_settled_and_handed_out_once_despite_disconnects(
    cut: dict[int, str], max_records: int
) -> None:
    broker = TinyBroker(300, cut=cut)
    async with running(broker, max_records) as rig:
        seen = await accept_all(rig, broker)
    assert set(broker.states) == {ACCEPTED}
    # Each is accepted as soon as it is seen, so it may be seen only once. Redeliveries are accepted again silently.
    assert max(seen.values()) == 1
    assert set(seen) == set(range(300))


async def test_first_request_includes_wanted_partitions() -> None:
    broker = TinyBroker(1)
    async with running(broker) as rig:
        (await rig.next_batch()).accept()
        await accept_all(rig, broker)
    first = broker.requests[0]
    assert isinstance(first, ShareFetchRequest)
    assert first.topics[0].partitions[0].partition_index == 0


async def test_rule_10_leases_of_a_deleted_topic_are_lost() -> None:
    broker = TinyBroker(10)
    async with running(broker) as rig:
        batch = await rig.next_batch()
        rig.node.lose_topic(PARTITION[0])
        assert not lease_of(batch).decide(0, 1)
        assert rig.node.is_settled
        assert rig.holdings.book.counter.undecided == 0
