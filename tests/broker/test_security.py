"""TLS and SASL: our client, kafka-python and librdkafka log in."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import anyio
import pytest
import trustme
from confluent_kafka import Producer
from kafka import KafkaProducer

from kshare import AuthenticationFailed, ConnectionLost, ShareConsumer
from kshare.protocol.messages import MetadataRequest
from kshare.testing import Broker
from tests.helpers.plain_client import plain_client

USERS = {"alice": "s=cr,t"}
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
DEADLINE_S = 30.0


@pytest.fixture
def authority(tmp_path: Path) -> tuple[ssl.SSLContext, str]:
    """A server's TLS context, and the path of the CA file for clients."""
    ca = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    path = tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(str(path))
    return context, str(path)


@pytest.mark.lengthy
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_and_librdkafka_log_in(mechanism: str) -> None:
    with Broker(topics={"t": 1}, users=USERS) as broker:
        producer = KafkaProducer(
            bootstrap_servers=broker.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password=USERS["alice"],
        )
        producer.send("t", b"kafka-python").get(timeout=DEADLINE_S)
        producer.close()
        other = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.username": "alice",
                "sasl.password": USERS["alice"],
                "log_level": 0,
            }
        )
        other.produce("t", b"librdkafka")
        assert other.flush(DEADLINE_S) == 0
        assert [record.value for record in broker.records("t")] == [b"kafka-python", b"librdkafka"]


@pytest.mark.lengthy
@pytest.mark.anyio
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_our_client_over_tls(mechanism: str, authority: tuple[ssl.SSLContext, str]) -> None:
    context, trusted = authority
    options: dict[str, Any] = {
        "group": "g",
        "topics": ["t"],
        "tls": True,
        "ca_file": trusted,
        "sasl_mechanism": mechanism,
        "username": "alice",
    }
    async with Broker(topics={"t": 1}, users=USERS, tls=context) as broker:
        broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
        broker.produce("t", [b"secret"])
        with anyio.fail_after(DEADLINE_S):
            async with ShareConsumer(broker.bootstrap, password=USERS["alice"], **options) as consumer:
                record = await anext(aiter(consumer))
                assert record.value == b"secret"
                record.accept()
            with pytest.raises(AuthenticationFailed):
                async with ShareConsumer(broker.bootstrap, password="wrong", **options) as consumer:
                    await anext(aiter(consumer))


def test_unauthenticated_client_is_disconnected() -> None:
    with Broker(topics={"t": 1}, users=USERS) as broker:
        host, _, port = broker.bootstrap.partition(":")
        with plain_client((host, int(port))) as client, pytest.raises(AssertionError, match="hung up"):
            client.ask(MetadataRequest(None))


@pytest.mark.anyio
async def test_consumer_without_credentials_raises_at_once() -> None:
    async with Broker(topics={"t": 1}, users=USERS) as broker:
        with (
            anyio.fail_after(DEADLINE_S),
            pytest.raises(ConnectionLost, match="requires SASL, set sasl_mechanism"),
        ):
            async with ShareConsumer(broker.bootstrap, group="g", topics=["t"]):
                await anyio.sleep_forever()
