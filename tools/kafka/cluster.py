"""A Kafka cluster of one or three brokers on this machine. Decides its settings, and when it is ready to be used.

with Cluster("4.3.1") as cluster:
    cluster.create_topic("orders", partitions=2)
    ...cluster.bootstrap...
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.kafka import requests, running
from tools.kafka.certificates import Authority
from tools.kafka.listeners import HOST, Listener, listener_settings, scram_arguments
from tools.kafka.node import Node, Ports, random_id
from tools.kafka.ports import free_ports
from tools.kafka.tool import run_tool

READY_DEADLINE_S = 120.0
_POLL_S = 0.1
_CONFIG_DEADLINE_S, _CONFIG_POLL_S = 30.0, 0.01
_MEMORY_OF_ONE_MB, _MEMORY_OF_MANY_MB = 1024, 512

_BY_RACK = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_QUICK_SETTINGS = {
    "process.roles": "broker,controller",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.segment.bytes": "1048576",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "2097152",
    # Compaction and retention within seconds, for topics that are configured so.
    "log.initial.task.delay.ms": "500",
    "log.cleaner.backoff.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "auto.create.topics.enable": "false",
    # A crashed broker can't register again, and its partitions don't move, before its old session has expired.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "4000",
    # Lets tests set short locks, heartbeats and sessions in the group's own configuration.
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.min.session.timeout.ms": "1000",
}


class Cluster:
    """Brokers of one release. Use it as a context manager, which stops them at its end."""

    def __init__(
        self,
        release: str,
        nodes: int = 1,
        listeners: Collection[Listener] = (),
        settings: Mapping[str, str] | None = None,
        first_port: int | None = None,
        advertised: Mapping[Listener, int] | None = None,
        racks: Sequence[str] = (),
        plugins: Path | None = None,
        is_optimised: bool = False,
    ) -> None:
        """`listeners` are added to PLAINTEXT; `settings` override our own.

        With `first_port`, PLAINTEXT listens on it and the next ports; all other ports are free ones. Brokers send
        clients to the `advertised` ports, if there are any, where something else listens, such as a proxy. `racks` are
        those of the nodes, whose followers consumers in the same rack then read. `plugins` is a folder with classes
        for the brokers, such as a metrics reporter that is named in `settings`. Brokers start faster if they aren't
        `is_optimised`, and are slower after the first minutes.
        """
        self.release = release
        self.folder = Path(tempfile.mkdtemp(prefix=f"kshare-kafka-{release}-"))
        self.authority = Authority(self.folder / "certificates")
        self._listeners = list(dict.fromkeys([Listener.PLAINTEXT, *listeners]))
        self._settings = dict(settings or {})
        self._advertised = dict(advertised or {})
        self._racks = racks
        memory = _MEMORY_OF_ONE_MB if nodes == 1 else _MEMORY_OF_MANY_MB
        self._ports = _choose_ports(nodes, self._listeners, first_port)
        self.nodes = [
            Node(number, release, self.folder / f"node-{number}", ports, memory, plugins, is_optimised)
            for number, ports in enumerate(self._ports, start=1)
        ]

    @property
    def bootstrap(self) -> str:
        """Addresses of every node's PLAINTEXT listener, in the format of bootstrap servers."""
        return self.bootstrap_of(Listener.PLAINTEXT)

    def bootstrap_of(self, listener: Listener) -> str:
        """Addresses of every node's listener of this kind."""
        return ",".join("{}:{}".format(*node.address(listener)) for node in self.nodes)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.delete_data(keep_logs=error is not None)

    def start(self) -> None:
        """Format and start every node. Returns when share groups can be used."""
        cluster_id = random_id()
        try:
            with ThreadPoolExecutor(len(self.nodes)) as pool:
                list(pool.map(lambda node: self._format(node, cluster_id), self.nodes))
            for node in self.nodes:
                node.start()
            self.wait_until_ready()
            running.clusters.append(self)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every node, whatever state it is in. The folder is kept, for its logs."""
        if self in running.clusters:
            running.clusters.remove(self)
        # Killed, because several brokers that stop cleanly wait long for each other, and no data is kept anyway.
        for node in self.nodes:
            node.kill()

    def delete_data(self, keep_logs: bool) -> None:
        """Remove the folder, or everything in it except the brokers' logs and settings."""
        if not keep_logs:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        for node in self.nodes:
            shutil.rmtree(node.folder / "data", ignore_errors=True)

    def restart(self, node: Node) -> None:
        """Restart a node that was killed or stopped, with the same ports and data. Returns when it is ready."""
        node.start()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until each running node that isn't paused sees all of them, and a share group can be joined."""
        expected = self._running_nodes()
        deadline = time.monotonic() + READY_DEADLINE_S
        while True:
            try:
                _prove_ready(expected)
            except (OSError, requests.RefusedError, IndexError) as problem:
                for node in expected:
                    if not node.is_running:
                        raise node.explain_end() from None
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"Kafka {self.release} isn't ready after {READY_DEADLINE_S} s ({problem}); "
                        f"its logs are in {self.folder}."
                    ) from problem
            else:
                for node in expected:
                    node.has_been_ready = True
                return
            time.sleep(_POLL_S)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replicas: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic, by default with a replica on every node."""
        requests.create_topic(
            self._any_address(), name, partitions, replicas or len(self.nodes), settings or {}
        )

    def set_group_config(self, group: str, settings: Mapping[str, str]) -> None:
        """Set a group's configuration: {"share.auto.offset.reset": "earliest"}. Returns when every node has it."""
        self._set_config(requests.Resource.GROUP, group, settings)

    def set_topic_config(self, topic: str, settings: Mapping[str, str]) -> None:
        """Set a topic's configuration: {"retention.ms": "1000"}. Returns when every node has it."""
        self._set_config(requests.Resource.TOPIC, topic, settings)

    def subscribe_client_metrics(self, name: str, settings: Mapping[str, str]) -> None:
        """Ask clients for metrics: {"metrics": "*"}. Brokers only do so if a plugin receives them."""
        self._set_config(requests.Resource.CLIENT_METRICS, name, settings)

    def run_tool(self, main_class: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's command-line tools against this cluster, with `given` as its standard input.

        `--bootstrap-server` is added. A tool that fails raises CalledProcessError, one that hangs TimeoutExpired.
        """
        return run_tool(main_class, "--bootstrap-server", self.bootstrap, *arguments, given=given)

    def _any_address(self) -> tuple[str, int]:
        return self._running_nodes()[0].address()

    def _running_nodes(self) -> list[Node]:
        """The running nodes that aren't paused. Raises RuntimeError if there are none."""
        awake = [node for node in self.nodes if node.is_running and not node.is_paused]
        if not awake:
            raise RuntimeError("No node is running.")
        return awake

    def _set_config(self, kind: requests.Resource, name: str, settings: Mapping[str, str]) -> None:
        # The controller responds before brokers, including its own, have read what it wrote.
        requests.set_config(self._any_address(), kind, name, settings)
        deadline = time.monotonic() + _CONFIG_DEADLINE_S
        for node in self._running_nodes():
            while requests.read_config(node.address(), kind, name, settings) != settings:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"node {node.id} doesn't know the configuration of {name} yet")
                time.sleep(_CONFIG_POLL_S)

    def _format(self, node: Node, cluster_id: str) -> None:
        ports = self._ports[self.nodes.index(node)]
        replicas = str(len(self.nodes))
        in_sync = str(min(2, len(self.nodes)))
        settings = {
            **_QUICK_SETTINGS,
            **{
                f"{topic}.replication.factor": replicas
                for topic in ("offsets.topic", "transaction.state.log")
            },
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync,
            "transaction.state.log.min.isr": in_sync,
            "controller.quorum.voters": ",".join(
                f"{other.id}@{HOST}:{its.controller}"
                for other, its in zip(self.nodes, self._ports, strict=True)
            ),
            **listener_settings(ports.clients, self._advertised, ports.controller, self.authority),
            **self._rack_settings(node),
            **self._settings,
        }
        arguments = scram_arguments(self._listeners)
        if self.release.startswith("4.1."):
            # From Kafka 4.2 on, share groups are enabled by default.
            arguments += ["--feature", "share.version=1"]
        node.format(settings, cluster_id, arguments)

    def _rack_settings(self, node: Node) -> dict[str, str]:
        if not self._racks:
            return {}
        return {"broker.rack": self._racks[self.nodes.index(node)], "replica.selector.class": _BY_RACK}


def _prove_ready(nodes: Collection[Node]) -> None:
    expected = {node.id for node in nodes}
    for node in nodes:
        missing = expected - requests.known_nodes(node.address()).keys()
        if missing:
            raise ConnectionError(f"node {node.id} doesn't know node {min(missing)} yet")
    for node in nodes:
        requests.prove_share_groups(node.address())


def _choose_ports(nodes: int, listeners: Collection[Listener], first_port: int | None) -> list[Ports]:
    free = iter(free_ports(nodes * (len(listeners) + 1)))
    chosen = []
    for index in range(nodes):
        clients = {listener: next(free) for listener in listeners}
        if first_port is not None:
            clients[Listener.PLAINTEXT] = first_port + index
        chosen.append(Ports(clients, controller=next(free)))
    return chosen
