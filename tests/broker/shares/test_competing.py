"""Members whose fetches wait for the same partition: which one is woken, and that none starves. Counted, not timed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from queue import Queue

import pytest

from kshare.broker.shares.share_partition_leader import SharePartitionLeader
from kshare.protocol.envelopes import encode_request
from kshare.protocol.messages import (
    ProduceRequest,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
)
from kshare.protocol.messages import share_fetch_request as fetch
from kshare.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from kshare.testing import Broker
from tests.broker.batches import batch
from tests.broker.raw import Raw
from tests.helpers.plain_client import PlainClient, plain_client

GROUP, TOPIC = "g", "orders"
MEMBERS = 8
WAIT_MS = 20_000
_RECORD_LIMIT = 1
_DEADLINE_S = 30.0


class Crowd:
    """Members that fetch at the same time. Their responses are put into one queue, in order of arrival."""

    def __init__(self, broker: Broker, stack: ExitStack) -> None:
        self.responses: Queue[tuple[int, ShareFetchResponse]] = Queue()
        self.looks = 0
        self._broker = broker
        host, port = broker.bootstrap.split(":")
        self.clients = [stack.enter_context(plain_client((host, int(port)))) for _ in range(MEMBERS)]
        self._epochs = [0] * MEMBERS
        for number, client in enumerate(self.clients):
            client.ask(ShareGroupHeartbeatRequest(GROUP, f"member-{number}", 0, None, [TOPIC]))
            self._ask(client, self._request(number, wait_ms=0))  # opens the session, and loads the partition

    def park(self, number: int, **options: object) -> None:
        """Send a fetch that waits. Returns when the broker has looked for records without finding any."""
        before = self.settled_looks()
        request = self._request(number, WAIT_MS, **options)

        def wait() -> None:
            with suppress(AssertionError, OSError):  # the fixture hangs up at the end
                self.responses.put((number, self.clients[number].ask(request)))

        threading.Thread(target=wait, daemon=True).start()
        self._until(lambda: self.looks > before)

    def settled_looks(self) -> int:
        """How often the broker has looked for records, once every woken fetch has looked."""
        for _ in range(20):
            self._broker.call(lambda: None)
        return self.looks

    def _request(self, number: int, wait_ms: int, **options: object) -> ShareFetchRequest:
        epoch = self._epochs[number]
        self._epochs[number] += 1
        topic = fetch.FetchTopic(self._broker.state.cluster.topics[TOPIC].id, [fetch.FetchPartition(0)])
        request = ShareFetchRequest(
            GROUP, f"member-{number}", epoch, wait_ms, topics=[] if epoch else [topic]
        )
        request.max_records = request.batch_size = 500
        request.min_bytes, request.max_bytes = 1, 1 << 20
        for name, value in options.items():
            setattr(request, name, value)
        return request

    def _ask(self, client: PlainClient, request: ShareFetchRequest) -> None:
        assert client.ask(request).error_code == 0

    def _until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(2000):
            if self._broker.call(is_so):
                return
        raise AssertionError("the broker never looked for the fetch")

    def next(self) -> tuple[int, list[tuple[int, int]]]:
        """The member that got a response next, and the ranges that it acquired."""
        number, response = self.responses.get(timeout=_DEADLINE_S)
        assert response.error_code == 0, response
        rows = [
            row for topic in response.responses for part in topic.partitions for row in part.acquired_records
        ]
        return number, [(row.first_offset, row.last_offset) for row in rows]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={TOPIC: 1}) as broker:
        yield broker


@pytest.fixture
def crowd(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crowd]:
    look = SharePartitionLeader.look
    with ExitStack() as stack:
        crowd = Crowd(broker, stack)

        def counted(self: SharePartitionLeader, max_bytes: int, most: int) -> object:
            crowd.looks += 1
            return look(self, max_bytes, most)

        monkeypatch.setattr(SharePartitionLeader, "look", counted)
        yield crowd
        broker.hang_up()


def test_one_record_wakes_one_waiting_fetch(broker: Broker, crowd: Crowd) -> None:
    for number in range(MEMBERS):
        crowd.park(number)
    before = crowd.settled_looks()
    broker.produce(TOPIC, [b"x"])
    assert crowd.next() == (0, [(0, 0)])
    assert crowd.settled_looks() - before == 1


def test_batches_written_together_are_delivered_in_one_response(broker: Broker, crowd: Crowd) -> None:
    for number in range(MEMBERS):
        crowd.park(number)
    before = crowd.settled_looks()
    rows = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch())])]
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=rows)
    with Raw(broker) as raw:
        raw.send(b"".join(encode_request(request, 9, number, "raw") for number in range(5)))
        assert crowd.next() == (0, [(0, 4)])
    assert crowd.settled_looks() - before == 1


def test_records_written_while_a_fetch_wakes_are_in_its_response(broker: Broker, crowd: Crowd) -> None:
    for number in range(MEMBERS):
        crowd.park(number)
    log = broker.state.cluster.topics[TOPIC].partitions[0].log

    def write() -> None:
        log.append(batch(), now=1000, leader_epoch=0)

    def write_now_and_with_the_next_turn() -> None:
        write()
        asyncio.get_running_loop().call_soon(write)

    broker.call(write_now_and_with_the_next_turn)
    assert crowd.next() == (0, [(0, 1)])


@pytest.mark.lengthy
def test_remaining_records_wake_the_next_fetch(broker: Broker, crowd: Crowd) -> None:
    for number in range(MEMBERS):
        crowd.park(number, share_acquire_mode=_RECORD_LIMIT, max_records=1)
    broker.produce(TOPIC, [b"x"] * 3)
    # The members' threads may be scheduled in any order.
    assert sorted(crowd.next() for _ in range(3)) == [(0, [(0, 0)]), (1, [(1, 1)]), (2, [(2, 2)])]


def test_fetch_below_its_min_bytes_lets_the_next_one_look(broker: Broker, crowd: Crowd) -> None:
    crowd.park(0, min_bytes=100_000)
    crowd.park(1, min_bytes=100_000)
    crowd.park(2)
    broker.produce(TOPIC, [b"x"])
    assert crowd.next() == (2, [(0, 0)])
    broker.produce(TOPIC, [b"x" * 100_000])
    assert crowd.next() == (0, [(1, 1)])


def test_disconnected_member_is_skipped(broker: Broker, crowd: Crowd) -> None:
    crowd.park(0)
    crowd.park(1)
    crowd.clients[0].connection.shutdown(2)
    broker.produce(TOPIC, [b"x"])
    assert crowd.next() == (1, [(0, 0)])


def test_records_released_with_a_session_wake_one_fetch(broker: Broker, crowd: Crowd) -> None:
    crowd.park(0)
    broker.produce(TOPIC, [b"x"])
    assert crowd.next() == (0, [(0, 0)])
    for number in range(1, MEMBERS):
        crowd.park(number)
    before = crowd.settled_looks()
    crowd.clients[0].connection.shutdown(2)
    assert crowd.next() == (1, [(0, 0)])
    assert crowd.settled_looks() - before == 1


def test_room_made_by_acknowledgements_is_for_the_fetch_that_waits(broker: Broker, crowd: Crowd) -> None:
    """A batch fills the window of 2,000 locks. Who settles it, and fetches in the same request, comes last."""
    for _ in range(3):
        broker.produce(TOPIC, [b"x"] * 3000)
    crowd.park(0)
    assert crowd.next() == (0, [(0, 2999)])
    crowd.park(1)
    crowd.park(2)
    topic_id = broker.state.cluster.topics[TOPIC].id
    settled = [fetch.AcknowledgementBatch(0, 2999, b"\x01")]
    crowd.park(0, topics=[fetch.FetchTopic(topic_id, [fetch.FetchPartition(0, settled)])])
    assert crowd.next() == (1, [(3000, 5999)])
