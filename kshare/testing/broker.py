"""A broker for tests, in this process: `with Broker() as broker: ... broker.bootstrap ...`, or `async with`.

It runs in a thread of its own, so blocking clients may talk to it from the test itself. Everything here is called from
the test's thread and returns when it is done.
"""

from __future__ import annotations

import atexit
import ssl
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from kshare.broker.broker import Broker as State
from kshare.broker.clock import Clock
from kshare.broker.cluster import Partition
from kshare.broker.faults import Faults
from kshare.broker.profiles import DEFAULT_RELEASE
from kshare.broker.running import Running, run
from kshare.broker.security import Security
from kshare.broker.settings import (
    DEAD_LETTER_PREFIX,
    DEAD_LETTER_TOPIC,
    MIN_LOCK_MS,
    Resource,
    common_settings,
)
from kshare.errors import ConfigError
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import Record

if TYPE_CHECKING:
    from kshare.broker.metrics import Reading
    from kshare.broker.storage.folder import DataFolder

T = TypeVar("T")

QUICK_SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "group.share.min.heartbeat.interval.ms": "500",
    MIN_LOCK_MS: "1000",
    "group.share.min.session.timeout.ms": "1000",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
"""What differs from Kafka's defaults: tests may choose short locks, heartbeats and sessions, and a member is assigned
its partitions at once."""


class Broker:
    """A cluster of embedded nodes."""

    def __init__(
        self,
        *,
        topics: Mapping[str, int] | None = None,
        nodes: int = 1,
        release: str = DEFAULT_RELEASE,
        settings: Mapping[str, str] | None = None,
        min_lock_ms: int | None = None,
        auto_create_topics: bool | None = None,
        clock: Clock | None = None,
        data_dir: str | Path | None = None,
        users: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`topics` maps names to numbers of partitions; `settings` are Kafka's broker settings.

        `min_lock_ms` is the shortest record lock that a group may choose: 1,000 ms here, 15,000 in Kafka.
        Topics are created when a client first asks for them, as Kafka does by default, unless `auto_create_topics`
        is False. Both go before what `settings` says.
        With `data_dir` everything is kept there, and found again by the next broker that is given it.
        With `users` (name → password) clients log in by SASL PLAIN or SCRAM; with `tls` they encrypt.
        """
        chosen = {**QUICK_SETTINGS, **(settings or {}), **common_settings(min_lock_ms, auto_create_topics)}
        self.state = State(nodes=nodes, clock=clock, settings=chosen, release=release)
        """What the broker knows. Look at it, or change it, by `call` only: it lives in another thread."""
        self.release = release
        self._data_dir = data_dir
        self._folder: DataFolder | None = None
        self._security = Security(tls, users or {})
        self._topics = dict(topics or {})
        self._portal_life: AbstractContextManager[BlockingPortal] | None = None
        self._portal: BlockingPortal | None = None
        self._life: AbstractContextManager[Running] | None = None
        self._running: Running | None = None

    # --- life

    def start(self) -> None:
        """Listens on free ports of 127.0.0.1."""
        if self._data_dir is not None:
            from kshare.broker.storage.folder import DataFolder

            self._folder = DataFolder(Path(self._data_dir))
            self._folder.attach(self.state)
        atexit.register(self.stop)  # a process that forgets to would never end
        self._portal_life = start_blocking_portal("asyncio", name="kshare embedded broker")
        self._portal = self._portal_life.__enter__()
        self._life = self._portal.wrap_async_context_manager(run(self.state, self._security))
        self._running = self._life.__enter__()
        for name, partitions in self._topics.items():
            if name not in self.state.cluster.topics:
                self.create_topic(name, partitions)

    def stop(self) -> None:
        """Hangs up on everyone. Raises what went wrong inside the broker, if anything did."""
        atexit.unregister(self.stop)
        if self._life is not None and self._portal_life is not None:
            life, portal, self._life, self._portal_life = self._life, self._portal_life, None, None
            life.__exit__(None, None, None)
            portal.__exit__(None, None, None)
        if self._folder is not None:
            self._folder.close()
            self._folder = None
        if self.state.crashes:
            raise ExceptionGroup("the embedded broker failed", self.state.crashes)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def call(self, function: Callable[[], T]) -> T:
        """Calls something in the broker's own thread, while nothing else happens there."""
        if self._portal is None:
            raise RuntimeError("the broker isn't running: use it as a context manager")

        def do() -> T:
            result = function()
            self.state.flush()
            return result

        return self._portal.call(do)

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, as clients want them."""
        if self._running is None:
            raise RuntimeError("the broker isn't running: use it as a context manager")
        return self._running.bootstrap

    # --- topics and groups

    def create_topic(self, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        self.call(lambda: self.state.cluster.create_topic(name, partitions, configs=settings))

    def delete_topic(self, name: str) -> None:
        self.call(lambda: self.state.cluster.delete_topic(self.state.cluster.topics[name]))

    def set_group_config(self, group: str, settings: Mapping[str, str]) -> None:
        """Such as {"share.auto.offset.reset": "earliest"}.

        Raises ConfigError for a dead-letter topic whose name doesn't begin with the broker's prefix, `dlq.` unless set
        otherwise. Clients may set such a name, as they may on Kafka, and then no dead letters are written.
        """
        topic = settings.get(DEAD_LETTER_TOPIC)
        prefix = self.call(lambda: self.state.configs.broker(DEAD_LETTER_PREFIX))
        if topic and not topic.startswith(prefix):
            raise ConfigError(
                f"{DEAD_LETTER_TOPIC} of group {group} is {topic!r}, and must begin with {prefix!r} "
                f"(the broker's {DEAD_LETTER_PREFIX}): brokers write no dead letters to other topics"
            )
        self._configure(Resource.GROUP, group, settings)

    def set_topic_config(self, topic: str, settings: Mapping[str, str]) -> None:
        """Such as {"max.message.bytes": "2000"}."""
        self._configure(Resource.TOPIC, topic, settings)

    def _configure(self, resource: Resource, name: str, settings: Mapping[str, str]) -> None:
        def change() -> None:
            configs = self.state.configs
            configs.replace(resource, name, {**configs.of(resource, name), **settings})

        self.call(change)

    # --- records

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | None],
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> None:
        """Writes one batch of records without any client."""
        headers, values = list(headers), list(values)

        def write() -> None:
            now = self.state.clock.now()
            found = self.state.cluster.partition(topic, partition)
            batch = BatchBuilder()
            for value in values:
                batch.append(value, key=key, headers=headers, timestamp=now)
            found.log.append(batch.build(), now=now, leader_epoch=found.leader_epoch)

        self.call(write)

    def records(self, topic: str) -> list[Record]:
        """Every record of a topic, partition after partition: for a look at dead letters, for instance."""

        def read() -> list[Record]:
            found = self.state.cluster.topics.get(topic)
            return [record for each in found.partitions for record in _records_of(each)] if found else []

        return self.call(read)

    def metrics(self) -> list[Reading]:
        """The broker's metrics at this moment, as its Prometheus endpoint would say them."""
        from kshare.broker.metrics import readings

        return self.call(lambda: list(readings(self.state)))

    # --- nodes and faults

    @property
    def faults(self) -> Faults:
        """What shall go wrong: see kshare.broker.faults."""
        return self.state.faults

    def hang_up(self, client_id: str | None = None) -> None:
        """Breaks the connections of all clients, or of one: their share sessions end with them."""
        if self._running is not None and self._portal is not None:
            self._portal.call(self._running.hang_up, client_id)

    def stop_node(self, number: int) -> None:
        """Node 1, 2, ... goes as if it had been killed; others lead and coordinate in its place."""
        running, node = self._running, self.state.cluster.nodes[number]
        if running is not None and self._portal is not None:
            self._portal.call(running.stop_node, node)

    def start_node(self, number: int) -> None:
        """A stopped node comes back, at its old address."""
        running, node = self._running, self.state.cluster.nodes[number]
        if running is not None and self._portal is not None:
            self._portal.call(running.start_node, node)

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Another node leads the partition from now on; the same one leads it anew."""
        cluster = self.state.cluster
        self.call(lambda: cluster.move_leader(cluster.partition(topic, partition), node))


def _records_of(partition: Partition) -> Iterable[Record]:
    for batch in partition.log.batches_from(partition.log.start_offset):
        if not batch.is_control:
            yield from batch.decode()
