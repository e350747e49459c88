"""An embedded Kafka broker for tests: `with Broker() as broker: ... broker.bootstrap ...`, or `async with`.

It runs in its own thread, so the test itself may use blocking clients. All methods are called from the test's thread
and return when they are done.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Mapping, Sized
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from anyio.from_thread import BlockingPortal, start_blocking_portal

from kshare.broker import broker as embedded
from kshare.broker.cluster import MAX_NEW_PARTITIONS, Node, Partition, Topic
from kshare.broker.cluster_server import ClusterServer, run
from kshare.broker.faults import Faults
from kshare.broker.request_error import RequestError
from kshare.broker.security import Security
from kshare.broker.settings import (
    DEAD_LETTER_PREFIX,
    DEAD_LETTER_TOPIC,
    MIN_LOCK_MS,
    Resource,
    common_settings,
)
from kshare.errors import ConfigError, KshareError
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import Record
from kshare.testing.config import BrokerConfig, check_map

if TYPE_CHECKING:
    from kshare.broker.client_metrics import ClientPush
    from kshare.broker.metrics import MetricValue
    from kshare.broker.storage.folder import DataFolder
    from kshare.testing.options import BrokerOptions

T = TypeVar("T")

QUICK_SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.heartbeat.interval.ms": "500",
    MIN_LOCK_MS: "1000",
    "group.share.min.session.timeout.ms": "1000",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
"""Different from Kafka's defaults: tests may configure short locks, heartbeats and sessions, members get their
assignments at once, and internal topics are small."""


class Broker:
    """An embedded Kafka cluster for tests: use it with `with` or `async with`.

    Options are those of `kshare.testing.BrokerOptions`.
    """

    def __init__(self, **options: Unpack[BrokerOptions]) -> None:
        config = BrokerConfig.make(options)
        chosen = {
            **QUICK_SETTINGS,
            **(config.settings or {}),
            **common_settings(config.min_lock_ms, config.auto_create_topics),
        }
        try:
            self.state = embedded.Broker(
                nodes=config.nodes, clock=config.clock, settings=chosen, release=config.release
            )
            """The broker's internal state. It belongs to another thread: access it only inside `call`."""
        except RequestError as error:
            raise ConfigError(f"settings: {error.message}") from error
        self.release = config.release
        self._data_dir = config.data_dir
        self._security = Security(config.tls, config.users or {})
        self._topics = dict(config.topics or {})
        self._exit_stack: ExitStack | None = None
        """While it runs."""
        self._portal: BlockingPortal | None = None
        self._running: ClusterServer | None = None

    # --- life

    def start(self) -> None:
        """Start the broker on free ports of 127.0.0.1, as `with` does."""
        with ExitStack() as stack:
            if self._data_dir is not None:
                stack.callback(_opened(Path(self._data_dir), self.state).close)
            missing = self.state.cluster.missing_topics(self._topics)
            atexit.register(self.stop)  # otherwise, a process that forgets to stop it would never end
            portal = stack.enter_context(start_blocking_portal("asyncio", name="kshare embedded broker"))
            server = portal.wrap_async_context_manager(run(self.state, self._security))
            self._portal, self._running = portal, stack.enter_context(server)
            self._exit_stack = stack.pop_all()
        for name, partitions in missing.items():
            self.create_topic(name, partitions)

    def stop(self) -> None:
        """Stop the broker and close all connections, as the end of `with` does. Raises errors that happened inside the
        broker, if any."""
        atexit.unregister(self.stop)
        stack, self._exit_stack = self._exit_stack, None
        if stack is not None:
            stack.close()
        if self.state.crashes:
            first = self.state.crashes[0]
            raise ExceptionGroup(
                f"the embedded broker failed: {type(first).__name__}: {first}", self.state.crashes
            )

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
        """Call a function in the broker's thread, while nothing else runs there, and return its result."""

        def do() -> T:
            result = function()
            self.state.flush()
            return result

        return self._running_portal().call(do)

    def _change(self, what: str, function: Callable[[], T]) -> T:
        """`call`, for functions that refuse invalid arguments as a request would be refused."""
        try:
            return self.call(function)
        except RequestError as error:
            raise ConfigError(f"{what}: {error.message or error.code.name}") from error

    def _running_portal(self) -> BlockingPortal:
        if self._portal is None:
            raise KshareError("the broker isn't running: use it as a context manager")
        if self._exit_stack is None:
            raise KshareError("the broker was stopped")
        return self._portal

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, for a client's bootstrap_servers."""
        return self._server().bootstrap

    def _server(self) -> ClusterServer:
        if self._running is None:
            raise KshareError("the broker isn't running: use it as a context manager")
        return self._running

    # --- topics and groups

    def create_topic(
        self, name: str, partitions: int | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic. `settings` are topic configurations, such as {"retention.ms": "60000"}.

        Without `partitions`, the broker setting `num.partitions` decides: 1 by default.
        """
        _check_name("name", name)
        if partitions is not None and (type(partitions) is not int or partitions < 1):
            raise ConfigError(f"partitions must be a whole number above 0, not {partitions!r}")
        if partitions is not None and partitions > MAX_NEW_PARTITIONS:
            raise ConfigError(f"topic {name!r}: at most {MAX_NEW_PARTITIONS} partitions, not {partitions}")
        if settings is not None:
            _check_settings(settings)

        def create() -> None:
            count = partitions or self.state.configs.broker_number("num.partitions")
            self.state.cluster.create_topic(name, count, configs=settings)

        self._change(f"topic {name!r}", create)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, with its records."""
        self.call(lambda: self.state.cluster.delete_topic(self._topic(name, advice="")))

    def set_group_config(self, group: str, settings: Mapping[str, str]) -> None:
        """Change the configuration of a group: {"share.auto.offset.reset": "earliest"}.

        Raises ConfigError if the name of a dead-letter topic doesn't begin with the broker's prefix (`dlq.` by
        default). Clients may set such a name, as on Kafka, but then no dead letters are written.
        """
        _check_name("group", group)
        _check_settings(settings)
        topic = settings.get(DEAD_LETTER_TOPIC)
        prefix = self.call(lambda: self.state.configs.broker(DEAD_LETTER_PREFIX))
        if topic and not topic.startswith(prefix):
            raise ConfigError(
                f"{DEAD_LETTER_TOPIC} of group {group} is {topic!r}, but must begin with {prefix!r} "
                f"(the broker's {DEAD_LETTER_PREFIX}): brokers write no dead letters to other topics"
            )
        self._configure(Resource.GROUP, group, settings)

    def set_topic_config(self, topic: str, settings: Mapping[str, str]) -> None:
        """Change the configuration of a topic: {"max.message.bytes": "2000"}."""
        _check_settings(settings)
        self.call(lambda: self._topic(topic))
        self._configure(Resource.TOPIC, topic, settings)

    def subscribe_client_metrics(self, name: str, settings: Mapping[str, str]) -> None:
        """Ask clients for metrics: {"metrics": "*", "interval.ms": "1000"}. `match` restricts it to some clients."""
        _check_name("name", name)
        _check_settings(settings)
        self._configure(Resource.CLIENT_METRICS, name, settings)

    def _configure(self, resource: Resource, name: str, settings: Mapping[str, str]) -> None:
        def change() -> None:
            configs = self.state.configs
            configs.replace(resource, name, {**configs.of(resource, name), **settings})

        self._change(f"settings of {resource.name.lower()} {name!r}", change)

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
        """Write records to a partition as one batch, without a client. The topic must exist: see `create_topic`.

        `values` has one value for each record: bytes, or None for a tombstone. All records get the same `key` and
        `headers`, such as [("trace", b"7")], and the time of the broker's clock.
        """
        records = _checked_values(values)
        if key is not None and not isinstance(key, bytes):
            raise ConfigError(f"key must be bytes or None, not {key!r}")
        headers = _checked_headers(headers)

        def write() -> None:
            now = self.state.clock.now()
            found = self._partition(topic, partition)
            batch = BatchBuilder()
            for value in records:
                batch.append(value, key=key, headers=headers, timestamp=now)
            found.log.append(batch.build(), now=now, leader_epoch=found.leader_epoch)

        self._change(f"records for topic {topic!r}", write)

    def records(
        self, topic: str, *, partition: int | None = None, committed_only: bool = False
    ) -> list[Record]:
        """The records of a topic, which must exist, without a client: partition by partition, or of one `partition`.

        They include records of transactions that are open or were aborted. `committed_only` leaves these out, as
        consumers with `isolation.level=read_committed` do.
        """

        def read() -> list[Record]:
            chosen = (
                self._topic(topic).partitions if partition is None else [self._partition(topic, partition)]
            )
            return [record for each in chosen for record in _records_of(each, committed_only)]

        return self.call(read)

    def metrics(self) -> list[MetricValue]:
        """The broker's current metrics, as its Prometheus endpoint would show them."""
        from kshare.broker.metrics import metric_values

        return self.call(lambda: list(metric_values(self.state)))

    def client_metrics(self) -> list[ClientPush]:
        """The latest push of each client: see `subscribe_client_metrics`."""
        return self.call(lambda: list(self.state.client_metrics.pushes()))

    # --- brokers and faults

    @property
    def faults(self) -> Faults:
        """The faults to inject: `faults.add` injects one, `faults.stop` ends all."""
        return self.state.faults

    def hang_up(self, client_id: str | None = None) -> None:
        """Close the connections of all clients, or of those with one client id. Their share sessions end."""
        if client_id is not None and not isinstance(client_id, str):
            raise ConfigError(f"client_id must be a string or None, not {client_id!r}")
        self._running_portal().call(self._server().hang_up, client_id)

    def stop_node(self, number: int) -> None:
        """Stop the broker with this id (1, 2, ...) as if it had been killed. Other brokers take over."""
        portal, node = self._running_portal(), self._node(number)
        if not node.is_up:
            raise ConfigError(f"broker {number} is already stopped")
        portal.call(self._server().stop_node, node)

    def start_node(self, number: int) -> None:
        """Start the broker with this id again, at its old address."""
        portal, node = self._running_portal(), self._node(number)
        if node.is_up:
            raise ConfigError(f"broker {number} is already running")
        portal.call(self._server().start_node, node)

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Move the leadership of a partition to the broker with the id `node`. If it is the leader already, only the
        leader epoch changes."""
        leader = self._node(node).id
        self.call(lambda: self.state.cluster.move_leader(self._partition(topic, partition), leader))

    # --- validation of arguments

    def _topic(self, name: str, *, advice: str = ". Create it with create_topic") -> Topic:
        _check_name("topic", name)
        topics = self.state.cluster.topics
        if name not in topics:
            have = f"the broker has {', '.join(sorted(topics))}" if topics else "the broker has none"
            raise ConfigError(f"topic {name!r} doesn't exist: {have}{advice}")
        return topics[name]

    def _partition(self, topic: str, number: int) -> Partition:
        partitions = self._topic(topic).partitions
        if type(number) is not int or not 0 <= number < len(partitions):
            raise ConfigError(
                f"topic {topic!r} has no partition {number!r} (it has {_counted(partitions, 'partition')})"
            )
        return partitions[number]

    def _node(self, number: int) -> Node:
        nodes = self.state.cluster.nodes
        if type(number) is not int or number not in nodes:
            raise ConfigError(f"there is no broker {number!r}: the cluster has {_counted(nodes, 'broker')}")
        return nodes[number]


def _opened(path: Path, state: embedded.Broker) -> DataFolder:
    # Imported only if a data folder is used.
    from kshare.broker.storage.folder import DataFolder
    from kshare.broker.storage.snapshot import UnreadableFolder

    try:
        folder = DataFolder(path)
        folder.attach(state)
    except OSError as problem:
        raise ConfigError(f"data_dir: can't use {path}: {problem.strerror}") from problem
    except UnreadableFolder as problem:
        raise ConfigError(f"data_dir: can't use {path}: {problem}") from None
    return folder


def _counted(things: Sized, name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def _checked_values(values: Iterable[bytes | None]) -> list[bytes | None]:
    if isinstance(values, str | bytes | bytearray) or not isinstance(values, Iterable):
        raise ConfigError(f"values must be a list of bytes, one for each record, not {values!r}")
    found = list(values)
    if not found:
        raise ConfigError("values is empty: give at least one record to produce")
    for value in found:
        if not isinstance(value, bytes | bytearray | memoryview | None):
            raise ConfigError(f"values must be bytes, or None for a tombstone, not {value!r}")
    return found


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{what} must be a string that is not empty, not {name!r}")


def _check_settings(settings: object) -> None:
    check_map("settings", settings, str, 'names to strings, such as {"retention.ms": "60000"}')


def _checked_headers(headers: object) -> list[tuple[str, bytes | None]]:
    wanted = f'headers must be a list of names and bytes, such as [("trace", b"7")], not {headers!r}'
    if isinstance(headers, str | bytes | Mapping) or not isinstance(headers, Iterable):
        raise ConfigError(wanted)
    found = list(headers)
    for header in found:
        match header:
            case (str(), bytes() | bytearray() | memoryview() | None):
                pass
            case _:
                raise ConfigError(wanted)
    return found


def _records_of(partition: Partition, committed_only: bool) -> Iterable[Record]:
    log = partition.log
    for batch in log.batches_from(log.start_offset):
        if batch.is_control or (committed_only and not log.is_committed(batch)):
            continue
        yield from batch.decode()
