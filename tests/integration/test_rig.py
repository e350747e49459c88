"""The test rig: brokers start, crash, freeze, restart, authenticate clients, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from tests.integration.conftest import FreshGroup, FreshTopic, StartCluster
from tests.tools.runs.small_run import small_run
from tools.kafka import requests
from tools.kafka.certificates import Authority
from tools.kafka.cluster import Cluster
from tools.kafka.jars import NEWEST_RELEASE
from tools.kafka.listeners import SASL_MECHANISMS, USERS, Listener, User
from tools.kafka.ports import free_ports, is_free

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.usefixtures("swept")]

_ROOT = Path(__file__).resolve().parents[2]
_DEADLINE_S = 60.0
# kafka-python retries until then, even with a wrong password.
_REFUSAL_MS = 2000


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.05)


def _produce(cluster: Cluster, topic: str, value: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
    try:
        producer.send(topic, value).get(timeout=_DEADLINE_S)
    finally:
        producer.close()


def _consume(cluster: Cluster, topic: str) -> bytes:
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap, consumer_timeout_ms=int(_DEADLINE_S * 1000))
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        value: bytes = next(consumer).value
        return value
    finally:
        consumer.close()


class TestOneBroker:
    def test_it_serves_records(self, kafka: Cluster, fresh_topic: FreshTopic) -> None:
        topic = fresh_topic()
        _produce(kafka, topic, b"hello")
        assert _consume(kafka, topic) == b"hello"

    def test_share_groups_are_usable_at_once(
        self, kafka: Cluster, fresh_topic: FreshTopic, fresh_group: FreshGroup
    ) -> None:
        """Kafka's own share consumer receives a record that was produced before it started."""
        topic, group = fresh_topic(partitions=2), fresh_group(share_record_lock_duration_ms="1000")
        _produce(kafka, topic, b"shared")
        done = kafka.run_tool(
            "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
            *("--topic", topic, "--group", group, "--max-messages", "1", "--timeout-ms", "60000"),
        )
        assert done.stdout.splitlines() == ["shared"]

    def test_a_failing_tool_raises(self, kafka: Cluster) -> None:
        with pytest.raises(subprocess.CalledProcessError):
            kafka.run_tool("org.apache.kafka.tools.TopicCommand", "--describe", "--topic", "no-such-topic")

    def test_a_refused_request_raises(self, kafka: Cluster, fresh_topic: FreshTopic) -> None:
        with pytest.raises(requests.RefusedError, match="error 36"):
            kafka.create_topic(fresh_topic())


@pytest.mark.long
class TestCrash:
    def test_a_restart_keeps_ports_and_data(self, start_cluster: StartCluster) -> None:
        cluster = start_cluster(NEWEST_RELEASE)
        address = cluster.bootstrap
        cluster.create_topic("kept")
        _produce(cluster, "kept", b"before the crash")
        cluster.nodes[0].kill()
        assert is_free(cluster.nodes[0].address()[1])
        with pytest.raises(OSError):
            requests.known_nodes(cluster.nodes[0].address())
        cluster.restart(cluster.nodes[0])
        assert cluster.bootstrap == address
        assert _consume(cluster, "kept") == b"before the crash"

    def test_a_frozen_broker_keeps_its_connections_and_responses_later(
        self, start_cluster: StartCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cluster = start_cluster(NEWEST_RELEASE)
        node = cluster.nodes[0]
        node.pause()
        with monkeypatch.context() as patience:
            patience.setattr("tools.kafka.wire.RESPONSE_DEADLINE_S", 0.3)
            with pytest.raises(TimeoutError):
                requests.known_nodes(node.address())
        node.resume()
        cluster.wait_until_ready()
        assert requests.known_nodes(node.address()) == {1: node.address()}

    def test_the_error_of_a_broker_that_cannot_start_has_the_reason(self) -> None:
        cluster = Cluster(NEWEST_RELEASE, settings={"log.retention.ms": "nonsense"})
        with pytest.raises(RuntimeError, match="nonsense"):
            cluster.start()
        cluster.delete_data(keep_logs=False)
        assert not cluster.folder.exists()


@pytest.mark.long
def test_three_nodes_survive_the_loss_of_one(start_cluster: StartCluster) -> None:
    cluster = start_cluster(NEWEST_RELEASE, nodes=3)
    first, second, third = cluster.nodes
    assert sorted(requests.known_nodes(third.address())) == [1, 2, 3]
    cluster.create_topic("orders", partitions=3, settings={"min.insync.replicas": "2"})
    first.kill()
    _wait_until(lambda: sorted(requests.known_nodes(third.address())) == [2, 3])
    _produce(cluster, "orders", b"still here")
    cluster.wait_until_ready()
    cluster.restart(first)
    assert sorted(requests.known_nodes(second.address())) == [1, 2, 3]


@pytest.fixture(scope="module")
def locked() -> Iterator[Cluster]:
    """A broker with every kind of listener."""
    with Cluster(NEWEST_RELEASE, listeners=list(Listener)) as cluster:
        yield cluster


def _nodes(cluster: Cluster, listener: Listener, **how: Any) -> list[int]:
    """The ids of all nodes, as another client sees them through this listener."""
    admin = KafkaAdminClient(
        bootstrap_servers=cluster.bootstrap_of(listener),
        security_protocol=listener.kafka_protocol,
        bootstrap_timeout_ms=_REFUSAL_MS,
        **how,
    )
    try:
        return [broker["broker_id"] for broker in admin.describe_cluster()["brokers"]]
    finally:
        admin.close()


def _shake_hands(cluster: Cluster, listener: Listener, context: ssl.SSLContext) -> None:
    """A bare TLS handshake and a first read: with TLS 1.3, a refused client only learns of it then."""
    address = cluster.nodes[0].address(listener)
    with (
        socket.create_connection(address, timeout=_DEADLINE_S) as plain,
        context.wrap_socket(plain, server_hostname=address[0]) as secured,
    ):
        secured.read(1)


class TestTls:
    def test_a_client_that_trusts_the_authority_connects(self, locked: Cluster) -> None:
        assert _nodes(locked, Listener.TLS, ssl_context=locked.authority.client_context()) == [1]

    def test_a_client_that_trusts_another_authority_refuses(self, locked: Cluster, tmp_path: Path) -> None:
        with pytest.raises(ssl.SSLCertVerificationError):
            _shake_hands(locked, Listener.TLS, Authority(tmp_path).client_context())

    def test_mutual_tls_accepts_a_client_certificate(self, locked: Cluster) -> None:
        context = locked.authority.client_context(locked.authority.client("alice"))
        assert _nodes(locked, Listener.MUTUAL_TLS, ssl_context=context) == [1]

    @pytest.mark.parametrize("shown", ["nothing", "a stranger's certificate"])
    def test_mutual_tls_refuses(self, locked: Cluster, tmp_path: Path, shown: str) -> None:
        context = locked.authority.client_context()
        if shown != "nothing":
            stranger = Authority(tmp_path).client("alice")
            context.load_cert_chain(stranger.certificate, stranger.key)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            _shake_hands(locked, Listener.MUTUAL_TLS, context)


class TestSasl:
    @pytest.mark.parametrize("user", USERS, ids=lambda user: user.name)
    @pytest.mark.parametrize("mechanism", SASL_MECHANISMS)
    @pytest.mark.parametrize("listener", [Listener.SASL_PLAINTEXT, Listener.SASL_TLS])
    def test_known_users_connect(
        self, locked: Cluster, listener: Listener, mechanism: str, user: User
    ) -> None:
        nodes = _nodes(
            locked,
            listener,
            ssl_context=locked.authority.client_context() if listener.is_encrypted else None,
            sasl_mechanism=mechanism,
            sasl_plain_username=user.name,
            sasl_plain_password=user.password,
        )
        assert nodes == [1]

    @pytest.mark.parametrize("mechanism", SASL_MECHANISMS)
    def test_a_wrong_password_is_refused(self, locked: Cluster, mechanism: str) -> None:
        with pytest.raises(KafkaError):
            _nodes(
                locked,
                Listener.SASL_PLAINTEXT,
                sasl_mechanism=mechanism,
                sasl_plain_username=USERS[0].name,
                sasl_plain_password=USERS[1].password,
            )


def test_a_run_replaces_a_broker_that_stops_responding(tmp_path: Path) -> None:
    """The broker is frozen without the rig knowing, which looks like a deadlock from outside."""
    done = small_run(tmp_path, _FREEZING, "-rA", conftest=_WATCHED)
    told = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stdout
    assert "1 passed" in told
    assert "1 rerun" in told
    assert "Kafka 4.1.2, node 1: it stopped responding (no response to DescribeCluster" in told
    assert "1 test run again: test_it.py::test_meets_it[4.1.2] passed" in told
    (evidence,) = (tmp_path / "stopped-brokers").glob("*/*")
    assert "ReplicaManager" in (evidence / "broker.log").read_text(encoding="utf-8")
    assert (evidence / "threads.txt").read_text(encoding="utf-8").startswith("Full thread dump")


_WATCHED = """
from tests.integration.conftest import *
import tools.kafka.health

tools.kafka.health.RESPONSE_DEADLINE_S = 3.0
"""
_FREEZING = """
    @pytest.mark.release("4.1.2")
    def test_meets_it(kafka, fresh_topic):
        mark = Path("frozen")
        if not mark.exists():
            mark.touch()
            os.kill(kafka.nodes[0].pid, signal.SIGSTOP)
            assert 0, "as if it had waited for a response"
        fresh_topic()
    """


class TestNothingIsLeft:
    def test_after_the_end(self) -> None:
        with Cluster(NEWEST_RELEASE) as cluster:
            ports = [cluster.nodes[0].address()[1]]
            assert not any(is_free(port) for port in ports)
        assert all(is_free(port) for port in ports)
        assert not cluster.folder.exists()

    @pytest.mark.parametrize(
        "sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda sent: sent.name
    )
    def test_after_the_shell_command_is_ended(self, sent: signal.Signals, tmp_path: Path) -> None:
        """Even if it is killed and can't clean up."""
        port = free_ports(1)[0]
        with subprocess.Popen(
            [sys.executable, "-m", "tools.kafka", "start", "--port", str(port)],
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        ) as command:
            try:
                assert command.stdout is not None
                assert f"127.0.0.1:{port}" in command.stdout.readline()
                assert not is_free(port)
                command.send_signal(sent)
                command.wait(timeout=_DEADLINE_S)
            finally:
                command.kill()
        _wait_until(lambda: is_free(port))
