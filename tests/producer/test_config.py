"""A producer's options, in our names and in Kafka's."""

from __future__ import annotations

from typing import Any

import pytest

from kshare.errors import ConfigError
from kshare.producer.config import producer_settings


def test_options_in_our_names() -> None:
    net, writer = producer_settings("a:1", {"linger": 0, "compression": "zstd", "client_id": "x"})
    assert (net.bootstrap, net.client_id) == ((("a", 1),), "x")
    assert (writer.linger, writer.compression) == (0, "zstd")


def test_options_in_kafkas_names() -> None:
    options = {
        "bootstrap.servers": "a:1",
        "transactional.id": "t",
        "linger.ms": "20",
        "batch.size": "1000",
        "compression_type": "none",
        "delivery.timeout.ms": 5000,
        "acks": -1,
        "enable.idempotence": True,
        "client.id": "x",
    }
    net, writer = producer_settings(None, options)
    assert (net.client_id, writer.transactional_id, writer.linger) == ("x", "t", 0.02)
    assert (writer.batch_bytes, writer.compression, writer.delivery_timeout) == (1000, None, 5.0)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"compression": "brotli"}, "compression must be one of gzip, snappy, lz4, zstd"),
        ({"linger": -1}, "linger must be a number of seconds, 0 or more"),
        ({"delivery_timeout": 0}, "delivery_timeout must be a positive number"),
        ({"batch_bytes": 0}, "batch_bytes must be a number of bytes"),
        ({"transactional_id": ""}, "transactional_id must be a non-empty string"),
        ({"acks": "1"}, "acks: records are confirmed by all in-sync replicas: leave it out"),
        ({"enable_idempotence": False}, "enable_idempotence: producers are always idempotent"),
        ({"linger.ms": "soon"}, "linger.ms: could not convert"),
        ({"linger.ms": 5, "linger": 1}, "linger.ms and linger both set linger"),
        ({"group": "g"}, "group is an option of consumers"),
        ({"lingr": 1}, "did you mean linger"),
        ({"value_serializer": str.encode}, "values are bytes"),
    ],
)
def test_invalid_options(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        producer_settings("a:1", options)


def test_missing_server() -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers is missing"):
        producer_settings(None, {})
