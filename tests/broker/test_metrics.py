"""The broker's metrics, in Python and over HTTP."""

from __future__ import annotations

import urllib.error
import urllib.request

import anyio
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kshare import ShareConsumer
from kshare.broker.broker import Broker as State
from kshare.broker.metrics import ACKNOWLEDGED, ACQUIRED, IN_FLIGHT, LAG, MEMBERS, METRICS, exposition
from kshare.broker.running import run
from kshare.testing import Broker

pytestmark = pytest.mark.anyio
DEADLINE_S = 30.0


async def test_what_a_consumer_does_shows() -> None:
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
        assert value(broker, MEMBERS.name, group="g") == 0
        assert value(broker, ACQUIRED.name, group="g") >= 10
        text = broker.call(lambda: exposition(broker.state))
        families = list(text_string_to_metric_families(text))
        assert {f"kshare_broker_{metric.name.removesuffix('_total')}" for metric in METRICS} >= {
            family.name for family in families
        }


def value(broker: Broker, name: str, **labels: str) -> float:
    """Of the one reading with these labels."""
    (found,) = [
        reading.value
        for reading in broker.metrics()
        if reading.metric.name == name and labels.items() <= reading.labels.items()
    ]
    return found


async def test_the_endpoint() -> None:
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
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
        text: str = answer.read().decode()
        return text
