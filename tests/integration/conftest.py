"""Real brokers as fixtures. If a broker can't be started, the test fails; it is never skipped.

Behaviour tests run on each release of Kafka. Other tests take turns: they run on one of their releases, and on all with
`--long`.

A test with both event loops runs on one of them for each release of Kafka, which alternates from release to release and
from test to test; with `--long`, on both. On the embedded broker it runs on both, unless it is marked `slow`.
"""

from __future__ import annotations

import itertools
import uuid
from collections import defaultdict
from collections.abc import Collection, Generator, Iterator
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import pytest

from kshare.testing import Broker
from tools.kafka.cluster import Cluster
from tools.kafka.jars import TESTED_RELEASES, install
from tools.runs.deselection import deselect

EMBEDDED = "embedded"
EMBEDDED_TOO = {"test_first_slice", "test_membership", "test_state_command"}
"""Modules that also run on the embedded broker, like all behaviour tests."""
AS_IN_KAFKA = {
    "auto.create.topics.enable": "false",
    "group.consumer.assignment.interval.ms": "1000",
    "group.share.assignment.interval.ms": "1000",
}
"""Settings with which the embedded broker behaves as our real brokers, where its defaults differ."""
_CLUSTERS = pytest.StashKey[list[Cluster]]()


class StartCluster(Protocol):
    """Starts a cluster that lives for one test; arguments as for Cluster."""

    def __call__(self, release: str, *arguments: Any, **options: Any) -> Cluster: ...


class FreshTopic(Protocol):
    """Creates a topic that no other test uses, and returns its name."""

    def __call__(self, partitions: int = 1, **settings: str) -> str: ...


class FreshGroup(Protocol):
    """Configures a share group that no other test uses and that starts at the earliest record. Returns its name."""

    def __call__(self, **settings: str) -> str: ...


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`kafka` is each release in turn, for the behaviour tests also the embedded broker."""
    if "kafka" in metafunc.fixturenames:
        path = metafunc.definition.path
        is_for_all = "behaviour" in path.parts or path.stem in EMBEDDED_TOO
        brokers = [*TESTED_RELEASES, *([EMBEDDED] if is_for_all else [])]
        if (only := metafunc.definition.get_closest_marker("release")) is not None:
            brokers = [*only.args]
        seldom = metafunc.definition.get_closest_marker("long_on")
        params = [
            pytest.param(
                broker,
                marks=_marks(broker, seldom.args if seldom else (), is_behaviour="behaviour" in path.parts),
            )
            for broker in brokers
        ]
        metafunc.parametrize("kafka", params, indirect=True, scope="session")


def _marks(broker: str, seldom: Collection[str], *, is_behaviour: bool) -> list[pytest.MarkDecorator]:
    if broker in seldom:
        return [pytest.mark.long]
    return [] if broker == EMBEDDED or is_behaviour else [pytest.mark.takes_turns("kafka")]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    loops: defaultdict[tuple[Any, ...], set[str]] = defaultdict(set)
    for item in items:
        if (at := _at(item)) is not None:
            loops[at.test].add(at.loop)
    is_long = config.getoption("--long")
    spared = [
        item
        for item in items
        if (at := _at(item)) is not None
        and len(loops[at.test]) > 1
        and at.loop != _loop_of(at.release, item)
        and (item.get_closest_marker("slow") or not (is_long or at.release == EMBEDDED))
    ]
    deselect(config, items, spared)


class _At(NamedTuple):
    """Where a test runs."""

    test: tuple[Any, ...]
    """The test with all its parameters but the event loop."""
    release: str
    loop: str


def _at(item: pytest.Item) -> _At | None:
    """None if it doesn't run on a release of Kafka, or uses no event loop of ours."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or not {"kafka", "anyio_backend"} <= callspec.params.keys():
        return None
    loop = callspec.params["anyio_backend"]
    other = tuple((name, str(value)) for name, value in callspec.params.items() if name != "anyio_backend")
    return _At((item.path, item.originalname, other), callspec.params["kafka"], loop)  # type: ignore[attr-defined]


def _loop_of(release: str, item: pytest.Item) -> str:
    place = [*TESTED_RELEASES, EMBEDDED].index(release)
    return ("asyncio", "trio")[(place + crc32(item.originalname.encode())) % 2]  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[Cluster | Broker]:
    """A running broker of each release in turn. It is shared by all tests, so use fresh topics and groups."""
    if request.param != EMBEDDED:
        yield from _run(Cluster(_installed(request.param)), request)
        return
    with EmbeddedCluster(settings=AS_IN_KAFKA) as broker:
        yield broker


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Stop a broker that the next test doesn't use: the idle ones of four workers used a tenth of two processors."""
    yield
    broker = _broker_of(item)
    if isinstance(item, pytest.Function) and broker not in (None, _broker_of(nextitem)):
        for definition in item._fixtureinfo.name2fixturedefs["kafka"]:
            definition.finish(item._request)  # type: ignore[arg-type]  # any request will do


def _broker_of(item: pytest.Item | None) -> str | None:
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("kafka") if callspec is not None else None


@pytest.fixture
def start_cluster(request: pytest.FixtureRequest) -> Iterator[StartCluster]:
    """Starts clusters for a single test, which may kill and pause them."""
    running: list[Generator[Cluster]] = []

    def start(release: str, *arguments: Any, **options: Any) -> Cluster:
        life = _run(Cluster(_installed(release), *arguments, **options), request)
        cluster = next(life)
        running.append(life)
        return cluster

    yield start
    for life in running:
        next(life, None)


@pytest.fixture
def fresh_topic(kafka: Cluster) -> FreshTopic:
    def create(partitions: int = 1, **settings: str) -> str:
        name = _fresh_name("topic")
        kafka.create_topic(name, partitions, settings=_dotted(settings))
        return name

    return create


@pytest.fixture
def fresh_group(kafka: Cluster) -> FreshGroup:
    def create(**settings: str) -> str:
        name = _fresh_name("group")
        kafka.set_group_config(name, {"share.auto.offset.reset": "earliest"} | _dotted(settings))
        return name

    return create


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: Any
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report where the brokers' logs are if a test fails while brokers run."""
    report = yield
    if report.failed:
        for cluster in item.session.stash.get(_CLUSTERS, []):
            report.sections.append((f"Kafka {cluster.release}", f"logs kept in {cluster.folder}"))
    return report


class _EmbeddedNode(NamedTuple):
    host: str
    port: int

    def address(self) -> tuple[str, int]:
        return self


class EmbeddedCluster(Broker):
    """The embedded broker, with the rest of the interface that these tests need."""

    @property
    def nodes(self) -> list[_EmbeddedNode]:
        parts = (address.rpartition(":") for address in self.bootstrap.split(","))
        return [_EmbeddedNode(host, int(port)) for host, _, port in parts]


_numbers = itertools.count(1)


def _fresh_name(kind: str) -> str:
    return f"{kind}-{next(_numbers)}-{uuid.uuid4().hex[:6]}"


def _dotted(settings: dict[str, str]) -> dict[str, str]:
    """Keyword arguments have underscores instead of the dots in Kafka's names."""
    return {name.replace("_", "."): value for name, value in settings.items()}


def _installed(release: str) -> str:
    install(release)
    return release


def _run(cluster: Cluster, request: pytest.FixtureRequest) -> Generator[Cluster]:
    """Start the cluster, yield it, and stop it. The logs are kept if a test failed meanwhile."""
    cluster.start()  # If this fails, the folder is kept too, and the error contains its path.
    alive = request.session.stash.setdefault(_CLUSTERS, [])
    alive.append(cluster)
    failed_before = request.session.testsfailed
    try:
        yield cluster
    finally:
        alive.remove(cluster)
        cluster.stop()
        cluster.delete_data(keep_logs=request.session.testsfailed > failed_before)
