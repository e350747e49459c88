"""What is known of a cluster that comes and goes."""

from __future__ import annotations

import threading

import pytest

from kshare import sync
from kshare.admin.config import admin_settings
from kshare.monitor.collect import Collector
from kshare.monitor.snapshot import Snapshot
from kshare.testing import Broker
from kshare.web.config import WorkerSources
from kshare.web.watcher import View, Watcher
from tests.helpers.consoles import eventually


def watcher(bootstrap: str, *worker_urls: str, interval_s: float = 0.1) -> Watcher:
    return Watcher(
        admin_settings(None, {"bootstrap.servers": bootstrap, "request_timeout": 2.0}),
        interval_s=interval_s,
        workers=WorkerSources(worker_urls),
    )


def seen(watching: Watcher) -> View:
    return watching.view


def test_an_absent_cluster_is_said_and_noticed_when_it_comes(free_tcp_port: int) -> None:
    with watcher(f"127.0.0.1:{free_tcp_port}") as watching:
        view = eventually(lambda: seen(watching), lambda view: view.problem is not None)
        assert view.snapshot is None
        assert str(free_tcp_port) in str(view.problem)
    assert not [thread for thread in threading.enumerate() if thread.name == "kshare web watcher"]


@pytest.mark.lengthy
def test_the_last_reading_remains_when_the_cluster_goes(kshare_broker: Broker) -> None:
    kshare_broker.create_topic("orders")
    kshare_broker.set_group_config("packers", {"share.auto.offset.reset": "earliest"})
    kshare_broker.produce("orders", [b"x"])
    with sync.ShareConsumer(kshare_broker.bootstrap, group="packers", topics=["orders"]) as consumer:
        next(iter(consumer))
    with watcher(kshare_broker.bootstrap) as watching:
        first = eventually(
            lambda: seen(watching),
            lambda view: (
                view.snapshot is not None and bool(view.snapshot.groups) and view.findings is not None
            ),
        )
        assert first.problem is None
        kshare_broker.stop_node(1)
        gone = eventually(lambda: seen(watching), lambda view: view.problem is not None)
        assert gone.number > first.number
        assert gone.snapshot is not None
        assert [group.group for group in gone.snapshot.groups] == ["packers"]
        kshare_broker.start_node(1)
        back = eventually(lambda: seen(watching), lambda view: view.problem is None)
        assert back.snapshot is not None
        assert back.snapshot.time > gone.snapshot.time


@pytest.mark.lengthy
def test_an_outage_is_logged_once_and_its_end(
    kshare_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    kshare_broker.create_topic("orders")

    def logged() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "kshare.web"]

    kshare_broker.stop_node(1)
    with watcher(kshare_broker.bootstrap) as watching:
        eventually(lambda: seen(watching), lambda view: view.number > 3)
        (away,) = logged()
        assert away.startswith("the cluster can't be read: ")
        assert kshare_broker.bootstrap in away
        kshare_broker.start_node(1)
        eventually(lambda: seen(watching), lambda view: view.snapshot is not None)
        eventually(logged, lambda lines: len(lines) > 1)
    assert logged() == [away, "the cluster can be read now"]


@pytest.mark.lengthy
def test_a_bug_in_a_reading_does_not_end_watching(
    kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: Collector) -> Snapshot:
        raise IndexError("list index out of range")

    with monkeypatch.context() as broken:
        broken.setattr(Collector, "read", fail)
        with watcher(kshare_broker.bootstrap) as watching:
            view = eventually(lambda: seen(watching), lambda view: view.problem is not None)
            assert "bug in kshare: IndexError" in str(view.problem)
            broken.undo()
            eventually(
                lambda: seen(watching), lambda view: view.snapshot is not None and view.problem is None
            )
    assert "Traceback" in caplog.text


def test_workers_are_asked_though_the_cluster_is_absent(free_tcp_port: int) -> None:
    with watcher(f"127.0.0.1:{free_tcp_port}", f"http://127.0.0.1:{free_tcp_port}") as watching:
        view = eventually(lambda: seen(watching), lambda view: view.fleet is not None)
        assert view.fleet is not None
        (process,) = view.fleet.processes
        assert process.reason == "the connection was refused: nothing listens there"
        eventually(lambda: seen(watching), lambda later: later.fleet is not view.fleet)


def test_a_reading_can_be_hurried(kshare_broker: Broker) -> None:
    with watcher(kshare_broker.bootstrap, interval_s=600) as watching:
        first = eventually(lambda: seen(watching), lambda view: view.snapshot is not None)
        watching.hurry()
        eventually(lambda: seen(watching), lambda view: view.snapshot is not first.snapshot)


def test_nobody_is_asked_if_no_workers_are_configured(kshare_broker: Broker) -> None:
    with watcher(kshare_broker.bootstrap) as watching:
        view = eventually(lambda: seen(watching), lambda view: view.number > 1)
        assert view.fleet is None
