"""The embedded broker as a program: starts a broker from command-line options and runs it until it is stopped.

Validates the options and reports errors. `kshare broker` parses the command line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import anyio

from kshare.broker.broker import Broker
from kshare.broker.cluster import MAX_NEW_PARTITIONS, Node
from kshare.broker.cluster_server import ClusterServer, run
from kshare.broker.profiles import DEFAULT_RELEASE
from kshare.broker.request_error import RequestError
from kshare.errors import ConfigError
from kshare.protocol.topic_names import require_topic_name

ErrorT = TypeVar("ErrorT", bound=Exception)


class StartupError(Exception):
    """The broker can't start. The message is for users."""


@dataclass(slots=True, frozen=True)
class BrokerArguments:
    """The options of the broker."""

    host: str = "127.0.0.1"
    port: int = 9092
    """The port of the first node; the others have the ports after it. 0: free ports."""
    nodes: int = 1
    release: str = DEFAULT_RELEASE
    topics: Mapping[str, int | None] = field(default_factory=dict)
    """Name → number of partitions. None: that of the data folder, or 1."""
    settings: Mapping[str, str] = field(default_factory=dict)
    data_dir: Path | None = None
    metrics_port: int | None = None


def topic(text: str) -> tuple[str, int | None]:
    """Parse `orders:4`, or `orders` for any number of partitions. Raises ValueError."""
    name, _, count = text.partition(":")
    require_topic_name("--topic", name)
    if not count:
        return name, None
    if not (count.isdecimal() and 0 < int(count) <= MAX_NEW_PARTITIONS):
        raise ValueError(
            f"--topic {name}: {count!r} is not a valid number of partitions, write 1 to {MAX_NEW_PARTITIONS}"
        )
    return name, int(count)


def serve(choice: BrokerArguments, say: Callable[[str], None], until: Callable[[], Awaitable[None]]) -> None:
    """Run a broker until `until` returns. Calls `say` with its address. Raises StartupError."""
    try:
        anyio.run(_serve, choice, say, until)
    except* ConfigError as refusals:
        raise StartupError(str(_first(refusals))) from None
    except* StartupError as problems:  # sockets are in a task group, which wraps exceptions in a group
        raise _first(problems) from None
    except* RequestError as refusals:
        raise StartupError(_first(refusals).message) from None
    except* OSError as failures:
        reason = _first(failures)
        raise StartupError(
            f"can't listen on {choice.host}:{choice.port}: {reason.strerror or reason}"
        ) from None


def _first(group: BaseExceptionGroup[ErrorT]) -> ErrorT:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


async def _serve(
    choice: BrokerArguments, say: Callable[[str], None], until: Callable[[], Awaitable[None]]
) -> None:
    with ExitStack() as stack:
        broker = Broker(nodes=choice.nodes, settings=choice.settings, release=choice.release)
        if choice.data_dir is not None:
            _open_storage(broker, choice.data_dir, stack)
        topics = broker.cluster.missing_topics(choice.topics)
        if choice.port + choice.nodes - 1 >= 1 << 16:
            raise StartupError(
                f"{choice.nodes} nodes starting at port {choice.port} would need ports above 65535"
            )
        for index, node in enumerate(broker.cluster.nodes.values()):
            _set_address(node, choice, index)
        async with run(broker) as running:
            for name, partitions in topics.items():
                broker.cluster.create_topic(name, partitions)
            broker.flush()
            metrics = None
            if choice.metrics_port is not None:
                metrics = await _start_metrics(running, choice.host, choice.metrics_port)
            say(f"listening on {running.bootstrap}")
            if metrics is not None:
                say(f"metrics at {metrics}")
            await until()


async def _start_metrics(running: ClusterServer, host: str, port: int) -> str:
    """Serve metrics. Returns their URL."""
    try:
        return f"http://{host}:{await running.start_metrics(host, port)}/metrics"
    except OSError as problem:
        raise StartupError(f"can't listen on {host}:{port}: {problem.strerror or problem}") from None


def _open_storage(broker: Broker, path: Path, stack: ExitStack) -> None:
    # Imported only if a data folder is used.
    from kshare.broker.storage.folder import DataFolder
    from kshare.broker.storage.snapshot import UnreadableFolder

    try:
        folder = stack.enter_context(closing(DataFolder(path)))
        folder.attach(broker)
    except OSError as problem:
        raise StartupError(f"can't use {path}: {problem.strerror}") from None
    except UnreadableFolder as problem:
        raise StartupError(f"can't use {path}: {problem}") from None


def _set_address(node: Node, choice: BrokerArguments, index: int) -> None:
    node.host = choice.host
    node.port = choice.port and choice.port + index
