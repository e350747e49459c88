"""Protocol rules for share sessions, tested on the task for one broker."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import anyio
import pytest

from kshare.errors import AcknowledgeError, BrokerError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ShareFetchRequest, ShareFetchResponse
from kshare.state import unseen_releases
from kshare.state.request_planner import IDLE_WAIT_MS
from tests.fakes.fetching import accept_all, running
from tests.fakes.tiny_broker import ACCEPTED, ARCHIVED, PARTITION, TinyBroker

pytestmark = pytest.mark.anyio


class Strict(TinyBroker):
    """Asserts that requests are sent one at a time. Notes what is acknowledged in which session."""

    def __init__(self, records: int, **options: Any) -> None:
        super().__init__(records, **options)
        self.is_busy = False
        self.sessions = 0
        self.acknowledged: list[tuple[int, int]] = []
        self.errors: dict[int, int] = {}
        """By the number of a request: it is answered with this error, and the session ends."""
        self.park_s = 0.0

    async def ask(self, request: Any) -> Any:
        assert not self.is_busy, "another request of this session is in flight"
        self.is_busy = True
        try:
            if request.share_session_epoch == 0:
                self.sessions += 1
            for topic in request.topics:
                for row in topic.partitions:
                    for batch in row.acknowledgement_batches:
                        for offset in range(batch.first_offset, batch.last_offset + 1):
                            self.acknowledged.append((self.sessions, offset))
            error = self.errors.pop(len(self.requests), 0)
            if error:
                self.requests.append(request)
                self.disconnect()
                return ShareFetchResponse(error_code=error)
            response = await super().ask(request)
            if isinstance(response, ShareFetchResponse) and not response.responses:
                await anyio.sleep(request.max_wait_ms / 1000 if self.park_s else 0)
            return response
        finally:
            self.is_busy = False


async def test_rule_1_acknowledgements_queued_for_the_old_session_fail_and_are_never_resent() -> None:
    """The session is lost before a release is sent: it isn't sent in the new session."""
    broker = Strict(10)
    async with running(broker) as rig:
        batch = await rig.next_batch()
        batch.release()
        broker.disconnect()
        rig.node.on_connection_closed("cut")
        refusal = rig.holdings.book.commits.results[PARTITION]
        assert isinstance(refusal, BrokerError)
        assert refusal.code == ErrorCode.SHARE_SESSION_NOT_FOUND
        again = await rig.next_batch()
        await anyio.sleep(0.1)
        assert broker.sessions == 2
        assert broker.acknowledged == []
        again.accept()
        await accept_all(rig, broker)
    assert {session for session, _ in broker.acknowledged} == {2}


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
    ids=lambda code: code.name,
)
async def test_rule_2_a_new_session_continues_after_any_session_error(error: ErrorCode) -> None:
    broker = Strict(200)
    broker.errors = dict.fromkeys((0, 2, 5), error)
    async with running(broker) as rig:
        seen = await accept_all(rig, broker)
    assert set(seen) == set(range(200))
    assert set(broker.states) == {ACCEPTED}
    assert broker.sessions >= 3


async def test_rule_3_accepting_a_record_of_a_lost_session_raises_with_the_reason() -> None:
    broker = TinyBroker(10)
    async with running(broker) as rig:
        record = next(iter(await rig.next_batch()))
        broker.disconnect()
        rig.node.on_connection_closed("the broker restarted")
        with pytest.raises(AcknowledgeError, match="can no longer be acknowledged"):
            record.accept()


@pytest.mark.lengthy
async def test_rule_8_an_acknowledgement_does_not_wait_long_behind_a_parked_fetch() -> None:
    """Records are delivered one at a time, and the broker parks fetches for their whole max wait."""
    broker = Strict(1)
    broker.park_s = 1.0
    async with running(broker) as rig:
        batch = await rig.next_batch()
        before = len(broker.requests)
        while len(broker.requests) < before + 3:  # it fetches more while the user holds this one
            await anyio.sleep(0.001)
        asked = [
            request.max_wait_ms
            for request in broker.requests[before:]
            if isinstance(request, ShareFetchRequest)
        ]
        assert asked
        assert max(asked) < IDLE_WAIT_MS / 4
        batch.accept()
        while broker.states != [ACCEPTED]:
            await anyio.sleep(0.001)


async def test_rule_8_requests_are_sent_one_after_another() -> None:
    broker = Strict(500)
    async with running(broker, max_records=20) as rig:
        await accept_all(rig, broker)
    assert set(broker.states) == {ACCEPTED}
    leader_epochs = [request.share_session_epoch for request in broker.requests]
    assert leader_epochs == [*range(len(leader_epochs) - 1), -1]


@pytest.mark.lengthy
async def test_rule_7_a_corrupt_batch_is_released_until_the_delivery_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is released with a warning, the records around it are delivered, and the delivery limit archives it."""
    monkeypatch.setattr(unseen_releases, "FIRST_S", 0.01)
    monkeypatch.setattr(unseen_releases, "LONGEST_S", 0.1)
    broker = Damaging(30, broken=range(10, 20))
    async with running(broker, max_records=10) as rig:
        seen = await accept_all(rig, broker)
    assert set(seen) == set(range(30)) - set(broker.broken)
    assert {broker.states[offset] for offset in broker.broken} == {ARCHIVED}
    assert {broker.deliveries[offset] for offset in broker.broken} == {Damaging.LIMIT}
    assert len(broker.requests) < 60


@pytest.mark.lengthy
async def test_rule_7_a_batch_corrupted_in_transit_is_redelivered_intact() -> None:
    broker = Damaging(30, broken=range(10, 20), times=1)
    async with running(broker, max_records=10) as rig:
        seen = await accept_all(rig, broker)
    assert set(seen) == set(range(30))


class Damaging(TinyBroker):
    """Flips a byte in every batch that contains one of these records. Archives records at a delivery limit."""

    LIMIT = 5

    def __init__(self, records: int, broken: range, times: int = LIMIT) -> None:
        super().__init__(records)
        self.broken = broken
        self._times = times

    def _acquire(self, max_records: int) -> Any:
        for offset, count in enumerate(self.deliveries):
            if count >= self.LIMIT and self.states[offset] == "available":
                self.states[offset] = ARCHIVED
        before = list(self.deliveries)
        data = super()._acquire(max_records)
        hit = [o for o in self.broken if before[o] < self.deliveries[o] <= self._times]
        if hit:
            damaged = bytearray(data.records)
            damaged[-1] ^= 0xFF
            data.records = bytes(damaged)
        return data


async def test_measured_ranges_ascend_and_an_existing_record_is_never_acknowledged_as_a_gap() -> None:
    """Otherwise, a broker refuses all acknowledgements of the partition, or archives an intact record."""
    broker = Strict(300)
    async with running(broker) as rig:
        kinds = ["accept", "release", "reject"]
        while not all(state in (ACCEPTED, ARCHIVED) for state in broker.states):
            with anyio.move_on_after(0.05):
                for record in reversed(list(await rig.next_batch())):
                    again = record.delivery_count > 1
                    getattr(record, "accept" if again else kinds[record.offset % 3])()
    for request in broker.requests:
        for topic in request.topics:
            for row in topic.partitions:
                ranges = [(b.first_offset, b.last_offset) for b in row.acknowledgement_batches]
                assert all(first <= last for first, last in ranges)
                assert all(left[1] < right[0] for left, right in pairwise(ranges))
                for batch in row.acknowledgement_batches:
                    assert len(batch.acknowledge_types) in (1, batch.last_offset - batch.first_offset + 1)
                    assert 0 not in batch.acknowledge_types
