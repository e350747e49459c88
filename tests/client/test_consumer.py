"""Consumers without a broker: they raise errors that explain what is wrong, and never hang."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import anyio
import pytest

from kshare import BrokerError, ConfigError, ConnectionLost, KshareError, ShareConsumer
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ShareGroupHeartbeatRequest
from tests.fakes.tiny_cluster import TinyCluster
from tests.helpers.consuming import DEADLINE_S, consumer

pytestmark = pytest.mark.anyio


async def test_unreachable_broker_raises_at_once(free_tcp_port: int) -> None:
    with anyio.fail_after(20):
        with pytest.raises(ConnectionLost, match=rf"127\.0\.0\.1:{free_tcp_port}.*refused"):
            async with ShareConsumer(f"127.0.0.1:{free_tcp_port}", group="g", topics=["t"]):
                pass


async def test_unopened_consumer_raises_error_that_shows_how_to_open_it() -> None:
    consumer = ShareConsumer("localhost:9092", group="g", topics=["t"])
    with pytest.raises(KshareError, match="write `async with ShareConsumer"):
        consumer.batches()
    with pytest.raises(KshareError, match="write `async with ShareConsumer"):
        await consumer.commit()


@pytest.mark.parametrize(
    ("servers", "options", "message"),
    [
        ("localhost:port", {"group": "g", "topics": ["t"]}, "port"),
        (
            "localhost:9092",
            {"group": "g", "topics": ["t"], "sasl_mecanism": "PLAIN"},
            "did you mean sasl_mechanism",
        ),
        ("localhost:9092", {"group": "g"}, "topics is missing"),
    ],
)
def test_wrong_options_are_refused_before_connecting(
    servers: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        ShareConsumer(servers, **options)


def test_codecs_import_neither_anyio_nor_the_client() -> None:
    code = (
        "import sys, kshare.protocol.by_name\n"
        "loaded = {'anyio', 'kshare.client', 'kshare.net', 'construct', 'pyarrow', 'pyspark'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


async def test_an_error_that_is_raised_again_and_again_has_a_traceback_of_its_own() -> None:
    """It had one line more each time, and kept all callers' frames alive."""
    cluster = TinyCluster("t")
    cluster.error_always[ShareGroupHeartbeatRequest] = ErrorCode.GROUP_ID_NOT_FOUND
    depths = []
    async with cluster.running(), consumer(cluster, "t") as source:
        with anyio.fail_after(DEADLINE_S):
            for _ in range(20):
                with pytest.raises(BrokerError) as raised:
                    await source.next_batch()
                depths.append(len(raised.traceback))
    assert {*depths} == {depths[0]}, depths
