"""The broker's metrics, in Python and over HTTP."""

from __future__ import annotations

import time
import urllib.error
import urllib.request

import anyio
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kshare import ShareConsumer
from kshare.broker.broker import Broker as State
from kshare.broker.cluster_server import run
from kshare.broker.metrics import (
    ACKNOWLEDGED,
    ACQUIRED,
    EVICTIONS,
    EXPIRED,
    IN_FLIGHT,
    LAG,
    LOADS,
    MEMBERS,
    REFUSALS,
    WRITES,
    exposition,
)
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ShareFetchRequest
from kshare.protocol.messages.share_fetch_request import FetchPartition, FetchTopic
from kshare.testing import Broker
from tests.helpers.plain_client import plain_client

pytestmark = pytest.mark.anyio
DEADLINE_S = 30.0


@pytest.mark.lengthy
async def test_metrics_of_a_consumer() -> None:
    async with Broker(topics={"t": 1}) as broker:
        broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
        broker.produce("t", [b"%d" % number for number in range(10)])
        with anyio.fail_after(DEADLINE_S):
            async with ShareConsumer(
                broker.bootstrap, group="g", topics=["t"], acknowledgement="explicit"
            ) as consumer:
                batch = await anext(consumer.batches())
                assert value(broker, IN_FLIGHT.name, group="g") == 10
                assert value(broker, MEMBERS.name, group="g") == 1
                for number, record in enumerate(batch):
                    (record.accept, record.release, record.reject)[number % 3]()
                await consumer.commit()
                assert value(broker, ACKNOWLEDGED.name, group="g", type="accept") == 4
                assert value(broker, ACKNOWLEDGED.name, group="g", type="release") == 3
                assert value(broker, ACKNOWLEDGED.name, group="g", type="reject") == 3
                assert value(broker, LAG.name, group="g") == 3
                assert value(broker, WRITES.count.name) == 1
                assert value(broker, LOADS.count.name) == 1
                assert 0 < value(broker, WRITES.longest.name) <= value(broker, WRITES.total.name)
        assert value(broker, MEMBERS.name, group="g") == 0
        assert value(broker, ACQUIRED.name, group="g") >= 10
        text = broker.call(lambda: exposition(broker.state))
        families = list(text_string_to_metric_families(text))
        assert {family.name for family in families} == {
            f"kshare_broker_{reading.metric.name.removesuffix('_total')}" for reading in broker.metrics()
        }


def test_metrics_of_failures() -> None:
    """An expired fetch, an error response, and a session that ends with its connection."""
    with Broker(topics={"t": 1}) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        (topic_id,) = broker.call(lambda: list(broker.state.cluster.by_id))
        broker.call(lambda: broker.state.share_states.initialize(("g", topic_id, 0), 1, 0))
        topics = [FetchTopic(topic_id, [FetchPartition(0)])]
        with plain_client((host, int(port))) as client:
            fetch = ShareFetchRequest("g", "me", 0, max_wait_ms=1, max_records=9, topics=topics)
            assert client.ask(fetch).error_code == 0
            fetch.share_session_epoch = 7
            assert client.ask(fetch).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        deadline = time.monotonic() + DEADLINE_S
        while not any(reading.metric is EVICTIONS for reading in broker.metrics()):
            assert time.monotonic() < deadline
        assert value(broker, EVICTIONS.name, node="1") == 1
        assert value(broker, EXPIRED.name, group="g") == 1
        assert value(broker, REFUSALS.name, api="ShareFetch") == 1


def value(broker: Broker, name: str, **labels: str) -> float:
    """The value of the only reading with these labels."""
    (found,) = [
        reading.value
        for reading in broker.metrics()
        if reading.metric.name == name and labels.items() <= reading.labels.items()
    ]
    return found


async def test_http_endpoint() -> None:
    with anyio.fail_after(DEADLINE_S):
        async with run(State()) as running:
            running.broker.cluster.create_topic("t.quoted", 1)
            port = await running.start_metrics()
            text = await anyio.to_thread.run_sync(get, f"http://127.0.0.1:{port}/metrics")
            assert 'kshare_broker_log_end_offset{topic="t.quoted",partition="0"} 0' in text
            with pytest.raises(urllib.error.HTTPError, match="404") as refused:
                await anyio.to_thread.run_sync(get, f"http://127.0.0.1:{port}/other")
            refused.value.close()


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as response:
        text: str = response.read().decode()
        return text
