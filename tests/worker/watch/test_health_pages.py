"""The HTTP endpoint of a worker through its life."""

from __future__ import annotations

import json

import anyio
import pytest

from kshare.errors import KshareError
from kshare.http.messages import HttpRequest
from kshare.testing import Broker
from kshare.worker import HandlerState, Worker, WorkerState
from kshare.worker.watch import health
from kshare.worker.watch.health import WorkerHealth
from kshare.worker.watch.health_pages import HealthPages
from kshare.worker.watch.process_identity import identify_process
from kshare.worker.watch.status import ProcessStatus
from tests.helpers.running_worker import from_the_start, get, running, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders")
    from_the_start(kshare_broker)
    return kshare_broker


async def state_of(worker: Worker) -> tuple[int, int, str]:
    """Status of /live and of /ready, and the state."""
    live, _ = await get(worker.http_port, "/live")
    ready, page = await get(worker.http_port, "/ready")
    return live, ready, json.loads(page)["state"]


@pytest.mark.lengthy
async def test_live_and_ready_while_it_starts_runs_and_drains(broker: Broker, anyio_backend: str) -> None:
    worker = Worker(broker.bootstrap, group="g", http="127.0.0.1:0")
    seen = []
    may_end = anyio.Event()

    @worker.on_startup
    async def while_it_starts() -> None:
        seen.append(await state_of(worker))

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        await may_end.wait()

    broker.produce("orders", [b"1"])
    async with running(worker):
        await until(lambda: worker.health().handlers[0].running == 1)
        seen.append(await state_of(worker))
        worker.stop()
        seen.append(await state_of(worker))
        assert worker.health().handlers[0].state is HandlerState.STOPPING
        may_end.set()
        await until(lambda: worker.health().state is WorkerState.STOPPED)
    assert seen == [(200, 503, "starting"), (200, 200, "running"), (200, 503, "draining")]
    assert worker.http_port is None


@pytest.mark.lengthy
async def test_health_of_a_handler(broker: Broker, anyio_backend: str) -> None:
    worker = Worker(broker.bootstrap, group="g")

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        pass

    assert worker.health() == WorkerHealth(WorkerState.STOPPED)
    broker.produce("orders", [b"1", b"2"])
    async with running(worker):
        await until(lambda: worker.health().handlers[0].counts.done == 2)
        await until(lambda: worker.health().handlers[0].last_progress > 0)
        worker.pause("ship", 60)
        (one,) = worker.health().handlers
        assert (one.handler, one.group, one.topics) == ("ship", "g", ("orders",))
        assert (one.state, one.counts.done, one.is_reachable) == (HandlerState.PAUSED, 2, True)


@pytest.mark.kshare_broker(
    settings={
        "group.share.min.heartbeat.interval.ms": "100",
        "group.share.heartbeat.interval.ms": "100",
    }
)
@pytest.mark.lengthy
async def test_not_ready_while_no_broker_responds(
    broker: Broker, anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(broker.bootstrap, group="g", http="127.0.0.1:0")

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        pass

    async with running(worker):
        assert await state_of(worker) == (200, 200, "running")
        await anyio.to_thread.run_sync(broker.stop_node, 1)
        monkeypatch.setattr(health, "UNREACHABLE_AFTER_S", 1.0)
        await until(lambda: not worker.health().is_ready)
        live, page = await get(worker.http_port, "/ready")
        assert live == 503
        assert json.loads(page)["reason"].startswith("no broker has responded for")
        monkeypatch.setattr(health, "UNREACHABLE_AFTER_S", 30.0)
        await anyio.to_thread.run_sync(broker.start_node, 1)
        await until(lambda: worker.health().handlers[0].unheard_s < 0.5)
        assert await state_of(worker) == (200, 200, "running")


@pytest.mark.lengthy
async def test_a_taken_port_stops_the_start(broker: Broker, anyio_backend: str) -> None:
    worker = Worker(broker.bootstrap, group="g", http="127.0.0.1:0")

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        pass

    async with running(worker):
        other = Worker(broker.bootstrap, group="g", http=f"127.0.0.1:{worker.http_port}")
        other.include(worker)
        with pytest.raises(KshareError, match="choose another address with http="):
            await other.serve()


async def test_errors_at_start_up_are_raised_as_they_are(anyio_backend: str, broker: Broker) -> None:
    worker = Worker(broker.bootstrap, group="g", http="127.0.0.1:0")

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        pass

    @worker.on_startup
    def fail() -> None:
        raise ValueError("no database")

    with pytest.raises(ValueError, match="no database"):
        await worker.serve()


@pytest.mark.parametrize(
    ("path", "state", "status"),
    [
        ("/live", WorkerState.STARTING, 200),
        ("/live", WorkerState.STOPPED, 503),
        ("/ready", WorkerState.RUNNING, 200),
        ("/ready", WorkerState.STARTING, 503),
        ("/status", WorkerState.STARTING, 200),
        ("/metrics", WorkerState.RUNNING, 404),
        ("/", WorkerState.RUNNING, 404),
    ],
)
def test_status_of_pages(path: str, state: WorkerState, status: int) -> None:
    def current() -> WorkerHealth:
        return WorkerHealth(state)

    def detailed() -> ProcessStatus:
        return ProcessStatus(identity=identify_process("kshare"), state=state, reason="", handlers=())

    assert HealthPages(current, detailed, [])(HttpRequest(path)).status == status
