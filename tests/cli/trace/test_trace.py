"""`kshare trace` between clients and the embedded broker: findings, filters, logins, and masked secrets."""

from __future__ import annotations

import signal
import socket
import ssl
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from kshare import sync
from kshare.protocol.messages import (
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
)
from kshare.protocol.messages import share_acknowledge_request as acknowledging
from kshare.protocol.messages import share_fetch_request as fetching
from kshare.testing import Broker
from tests.cli.running import DEADLINE, Kshare, Piped
from tests.cli.tracing import Trace, tracing
from tests.helpers.plain_client import PlainClient, plain_client

MEMBER = "JdbWNY3-Qq-V0wi6Y3fsFg"
RENEW, ACCEPT, RELEASE = b"\x04", b"\x01", b"\x02"
PASSWORD = "s=cr,t"
HUNG_UP = (AssertionError, ConnectionError)
"""What `PlainClient` raises when the other side closes the connection, in one way or another."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as broker:
        broker.set_group_config(
            "shippers",
            {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "1000"},
        )
        broker.produce("orders", [b"%d" % number for number in range(300)])
        yield broker


class Rogue:
    """A member that breaks the rules of the protocol, on one connection."""

    def __init__(self, client: PlainClient, topic_id: bytes) -> None:
        self._client = client
        self._topic_id = topic_id

    def fetch(self, epoch: int, *acks: tuple[int, int, bytes], **fields: int | bool) -> int:
        """Send a fetch; returns the error code."""
        batches = [fetching.AcknowledgementBatch(*ack) for ack in acks]
        topics = [fetching.FetchTopic(self._topic_id, [fetching.FetchPartition(0, batches)])]
        limits = {
            "max_wait_ms": 10,
            "min_bytes": 1,
            "max_records": 10,
            "batch_size": 10,
            "share_acquire_mode": 1,
        }
        request = ShareFetchRequest("shippers", MEMBER, epoch, topics=topics)
        for name, value in (limits | fields).items():
            setattr(request, name, value)
        return self._client.ask(request).error_code

    def acknowledge(self, epoch: int, *acks: tuple[int, int, bytes], is_renewing: bool = False) -> None:
        batches = [acknowledging.AcknowledgementBatch(*ack) for ack in acks]
        topics = [
            acknowledging.AcknowledgeTopic(self._topic_id, [acknowledging.AcknowledgePartition(0, batches)])
        ]
        self._client.ask(ShareAcknowledgeRequest("shippers", MEMBER, epoch, is_renewing, topics))


@pytest.mark.lengthy
def test_all_findings_about_a_misbehaving_client(broker: Broker, tmp_path: Path) -> None:
    topic_id = broker.call(lambda: broker.state.cluster.topics["orders"].id)
    with tracing(broker.bootstrap, tmp_path) as trace:
        with plain_client(endpoint(trace)) as client:
            client.ask(ShareGroupHeartbeatRequest("shippers", MEMBER, 0, None, ["orders"]))
            rogue = Rogue(client, topic_id)
            rogue.fetch(0, (0, 9, ACCEPT))  # acks-at-epoch-0, turned-away
            rogue.fetch(0)  # 0-9
            rogue.fetch(5)  # skipped-epoch
            rogue.acknowledge(1, (0, 1, ACCEPT), (50, 59, ACCEPT))  # not-acquired, good-with-bad
            rogue.acknowledge(2, (0, 1, ACCEPT))
            rogue.acknowledge(3, (0, 1, ACCEPT))  # settled-twice
            rogue.acknowledge(4, (2, 4, ACCEPT * 2))  # types-length
            rogue.acknowledge(5, (2, 4, ACCEPT), (4, 5, ACCEPT))  # ranges-out-of-order
            rogue.acknowledge(6, (2, 4, b"\x07"))  # unknown-type
            rogue.acknowledge(7, (2, 4, RENEW))  # renew-unsaid
            rogue.fetch(8, (2, 4, RENEW), is_renew_ack=True)  # renew-and-fetch
            for epoch in range(8, 19):
                rogue.acknowledge(epoch, (2, 4, RENEW), is_renewing=True)  # endless-renewals
            time.sleep(1.1)  # the lock's duration
            rogue.acknowledge(19, (5, 9, ACCEPT))  # after-the-lock
            rogue.fetch(0)
            rogue.acknowledge(1, (30, 31, ACCEPT))
            for _ in range(3):
                rogue.fetch(0)  # session-resets
        with plain_client(endpoint(trace)) as client:
            rogue = Rogue(client, topic_id)
            rogue.fetch(0)
            for epoch in range(1, 60):
                rogue.fetch(epoch, max_wait_ms=0)  # small-fetches, then busy-polling
            for epoch in range(60, 112):
                rogue.fetch(epoch, max_wait_ms=0)
        assert trace.end() == 0
    assert trace.errors == ""
    assert trace.summary["undecoded"] == 0
    assert trace.rules >= {
        "acks-at-epoch-0",
        "after-the-lock",
        "busy-polling",
        "endless-renewals",
        "good-with-bad",
        "not-acquired",
        "ranges-out-of-order",
        "renew-and-fetch",
        "renew-unsaid",
        "session-left-open",
        "session-resets",
        "settled-twice",
        "skipped-epoch",
        "small-fetches",
        "turned-away",
        "types-length",
        "unknown-type",
    }


@pytest.mark.lengthy
def test_all_nodes_of_a_cluster_are_reached_through_the_proxy(tmp_path: Path) -> None:
    with Broker(topics={"orders": 3}, nodes=3) as broker:
        broker.set_group_config("shippers", {"share.auto.offset.reset": "earliest"})
        for partition in range(3):
            broker.produce("orders", [b"x"] * 10, partition=partition)
        with tracing(broker.bootstrap, tmp_path) as trace:
            with sync.ShareConsumer(trace.address, group="shippers", topics=["orders"]) as consumer:
                records = iter(consumer)
                for _ in range(15):
                    next(records)
                broker.move_leader("orders", 0, 2)
                broker.move_leader("orders", 1, 3)
                broker.produce("orders", [b"y"] * 10, partition=0)
                seen = [next(records).value for _ in range(20)]
                assert b"y" in seen
            assert trace.end() == 0
        servers = {
            exchange["server"] for exchange in trace.of_type("exchange") if exchange["api"] == "ShareFetch"
        }
        assert servers == set(broker.bootstrap.split(","))
        assert trace.summary["undecoded"] == 0


@pytest.mark.lengthy
def test_tls_and_login_to_the_cluster(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={tmp_path / 'ca.pem'}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="alice" password="{PASSWORD}";\n'
    )
    with (
        Broker(topics={"orders": 1}, tls=context, users={"alice": PASSWORD}) as broker,
        tracing(broker.bootstrap, tmp_path, "--command-config", str(properties)) as trace,
    ):
        produce(trace, {})
        assert trace.end() == 0
        assert [record.value for record in broker.records("orders")] == [b"hello"]
    assert {exchange["api"] for exchange in trace.of_type("exchange")} >= {"Metadata", "Produce"}


@pytest.mark.lengthy
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_clients_log_in_through_the_proxy_and_secrets_are_masked(tmp_path: Path, mechanism: str) -> None:
    with (
        Broker(topics={"orders": 1}, users={"alice": PASSWORD}) as broker,
        tracing(broker.bootstrap, tmp_path, "--verbose") as trace,
    ):
        login = {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": PASSWORD}
        produce(trace, {"security.protocol": "SASL_PLAINTEXT", **login})
        assert trace.end() == 0
        assert [record.value for record in broker.records("orders")] == [b"hello"]
    assert trace.summary["undecoded"] == 0
    logins = [exchange for exchange in trace.of_type("exchange") if exchange["api"] == "SaslAuthenticate"]
    assert logins
    assert all(set(b64decode(exchange["request"]["authBytes"])) == set(b"*") for exchange in logins)
    captured = trace.capture.read_bytes()
    assert PASSWORD.encode() not in captured
    assert b"alice" not in captured
    assert b"hello" in captured


@pytest.mark.lengthy
def test_filters_choose_the_shown_exchanges(broker: Broker, tmp_path: Path) -> None:
    with tracing(broker.bootstrap, tmp_path, "--group", "shippers", "--api", "sharefetch") as trace:
        with sync.ShareConsumer(trace.address, group="shippers", topics=["orders"]) as consumer:
            next(iter(consumer))
        assert trace.end(signal.SIGTERM) == 0
    assert {exchange["api"] for exchange in trace.of_type("exchange")} == {"ShareFetch"}
    assert trace.summary["exchanges"] > len(trace.of_type("exchange"))


def test_lint_shows_only_findings(broker: Broker, tmp_path: Path) -> None:
    topic_id = broker.call(lambda: broker.state.cluster.topics["orders"].id)
    with tracing(broker.bootstrap, tmp_path, "--lint") as trace:
        with plain_client(endpoint(trace)) as client:
            Rogue(client, topic_id).fetch(7)
            Rogue(client, topic_id).fetch(0, (0, 0, ACCEPT))
        assert trace.end() == 0
    assert trace.of_type("exchange") == []
    assert "acks-at-epoch-0" in trace.rules


@pytest.mark.lengthy
def test_closed_pipe_ends_it(broker: Broker) -> None:
    with Piped("trace", "-b", broker.bootstrap, "--listen", "127.0.0.1:0") as reader:
        address = reader.line().decode().split()[-1]
        reader.close()
        with pytest.raises(HUNG_UP):
            ask_for_ever(("127.0.0.1", int(address.rpartition(":")[2])))
        assert reader.end() == (141, b"")


def test_errors_are_reported_on_one_line(run: Kshare, broker: Broker, tmp_path: Path) -> None:
    for arguments, reason in (
        (("--listen", broker.bootstrap), "can't listen at"),
        (("--listen", "nonsense"), "nonsense"),
        (("--error", "NO_SUCH_THING"), "not a Kafka error"),
        (("--write", str(tmp_path / "no" / "where")), "No such file"),
    ):
        done = run("trace", "-b", broker.bootstrap, *arguments)
        assert done.code in (1, 2)
        assert reason in done.err
        assert done.err.count("\n") == 1


def test_unreachable_cluster_is_noted_and_waited_for(tmp_path: Path) -> None:
    with Broker() as broker:
        gone = broker.bootstrap
    with tracing(gone, tmp_path) as trace:
        with pytest.raises(HUNG_UP), plain_client(endpoint(trace)):
            pass
        assert trace.end() == 0
    assert [event["type"] for event in trace.events] == ["listening", "note", "summary"]
    assert "can't reach" in trace.events[1]["text"]


@pytest.mark.lengthy
def test_unreachable_cluster_is_reported_without_any_client(tmp_path: Path) -> None:
    with Broker() as broker:
        gone = broker.bootstrap
    properties = tmp_path / "client.properties"
    properties.write_text("socket.connection.setup.timeout.ms=300\n")
    with tracing(gone, tmp_path, "--command-config", str(properties)) as trace:
        deadline = time.monotonic() + DEADLINE
        while not trace.errors:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert trace.end() == 0
    assert trace.errors.startswith(f"kshare: can't reach {gone}: ")
    assert trace.errors.endswith("; waiting for clients nevertheless\n")


@pytest.mark.lengthy
def test_client_that_uses_tls_is_noted(broker: Broker, tmp_path: Path) -> None:
    with tracing(broker.bootstrap, tmp_path) as trace:
        with socket.create_connection(endpoint(trace), timeout=DEADLINE) as client:
            client.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
            assert client.recv(1) == b""
        assert trace.end() == 0
    (note,) = trace.of_type("note")
    assert "a client speaks TLS" in note["text"]


def ask_for_ever(address: tuple[str, int]) -> None:
    """Send requests until the connection is closed."""
    with plain_client(address) as client:
        while True:
            client.ask(ShareGroupHeartbeatRequest("shippers", MEMBER, -1, None, None))


def endpoint(trace: Trace) -> tuple[str, int]:
    host, _, port = trace.address.rpartition(":")
    return host, int(port)


def produce(trace: Trace, options: dict[str, str]) -> None:
    producer = Producer({"bootstrap.servers": trace.address, **options})
    producer.produce("orders", b"hello")
    assert producer.flush(DEADLINE) == 0


@pytest.mark.lengthy
def test_surplus_bytes_after_a_request_are_a_finding(broker: Broker, tmp_path: Path) -> None:
    """librdkafka's request for all topics has three surplus bytes."""
    with tracing(broker.bootstrap, tmp_path) as trace:
        listed = AdminClient({"bootstrap.servers": trace.address, "log_level": 0}).list_topics(
            timeout=DEADLINE
        )
        assert "orders" in listed.topics
        trace.end()
    asked = [exchange for exchange in trace.of_type("exchange") if exchange.get("requestSurplusBytes")]
    assert asked
    assert all(exchange["api"] == "Metadata" and "problem" not in exchange for exchange in asked)
    (finding, *_) = [finding for finding in trace.of_type("finding") if finding["rule"] == "surplus-bytes"]
    assert finding["text"] == "Metadata v13: 3 bytes are left over after the request"
    assert finding["clientId"] == "rdkafka"
