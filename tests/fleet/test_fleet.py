"""Real workers, found and asked: what each is doing, those that have ended, and those that were killed."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from kshare.admin.config import admin_settings
from kshare.admin.routing import Router
from kshare.errors import ConfigError
from kshare.fleet.allowed_hosts import FOR_OTHERS, AllowedHosts
from kshare.fleet.announcement_log import AnnouncementLog
from kshare.fleet.fleet import Fleet, FleetView
from kshare.fleet.no_status import NoStatus, Why
from kshare.net.pool import Pool
from kshare.testing import Broker
from kshare.worker import Worker
from kshare.worker.watch.announcement import Announcement, announcement_value
from kshare.worker.watch.process_identity import identify_process
from kshare.worker.watch.status import ProcessStatus, RunState
from tests.cli.worker.worker_programs import APP, WorkerProgram
from tests.fleet.pages import json_response, serving
from tests.helpers.running_worker import from_the_start, running, until

pytestmark = pytest.mark.anyio

TOPIC = "kshare-workers"
HERE = AllowedHosts.parse(["127.0.0.0/8"])
LONG_S = 120.0


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders", 2)
    from_the_start(kshare_broker)
    return kshare_broker


@asynccontextmanager
async def fleet(
    broker: Broker,
    urls: Iterable[str] = (),
    allowed: AllowedHosts = HERE,
    wall_clock: Callable[[], float] = time.time,
) -> AsyncIterator[Fleet]:
    settings = admin_settings(broker.bootstrap, {})
    async with Pool(settings) as pool:
        await pool.bootstrap()
        log = AnnouncementLog(Router(pool, settings.request_timeout), TOPIC, wall_clock)
        yield Fleet(urls, log, allowed, limit_s=LONG_S, wall_clock=wall_clock)


async def looked(fleet: Fleet, count: int) -> FleetView:
    """As soon as there are so many processes."""
    with anyio.fail_after(LONG_S):
        while len((view := await fleet.look()).processes) != count:
            await anyio.sleep(0.05)
    return view


def announce(broker: Broker, url: Any, id_: str = "") -> None:
    one = Announcement(identity=identify_process("shop"), url=url, handlers=(), interval_s=60.0)
    value = json.loads(announcement_value(one)) | ({"id": id_} if id_ else {})
    broker.produce(TOPIC, [json.dumps(value).encode()], key=value["id"].encode())


async def test_what_an_announced_worker_is_doing(broker: Broker, anyio_backend: str) -> None:
    worker = Worker(broker.bootstrap, group="g", http="127.0.0.1:0", announce=TOPIC)
    may_end = anyio.Event()

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        await may_end.wait()

    broker.produce("orders", [b"1"])
    async with fleet(broker) as looking:
        async with running(worker):
            await until(lambda: worker.health().handlers[0].running == 1)
            (process,) = (await looked(looking, 1)).processes
            assert isinstance(process.told, ProcessStatus)
            assert process.announced is not None
            assert process.told.identity == process.announced.announcement.identity
            assert (process.url.port, process.silent_since) == (worker.http_port, None)
            (run,) = process.told.handlers[0].runs
            assert (run.topic, run.offset, run.state) == ("orders", 0, RunState.RUNNING)
            may_end.set()
        assert (await looking.look()) == FleetView((), ())


@pytest.mark.lengthy
async def test_a_configured_worker(broker: Broker, anyio_backend: str) -> None:
    worker = Worker(broker.bootstrap, group="g", http="127.0.0.1:0")
    worker.handler("orders")(lambda value: None)
    async with running(worker):
        found = await Fleet([f"http://127.0.0.1:{worker.http_port}"], limit_s=LONG_S).look()
    (process,) = found.processes
    assert isinstance(process.told, ProcessStatus)
    assert (process.announced, process.silent_since, found.problems) == (None, None, ())


@pytest.mark.lengthy
async def test_processes_of_one_command(
    broker: Broker, anyio_backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(APP + '@worker.handler("orders")\nasync def ship(value: str): ...\n')
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", broker.bootstrap)
    monkeypatch.setenv("KSHARE_WORKER_HTTP", "127.0.0.1:0")
    async with fleet(broker) as looking:
        with WorkerProgram(tmp_path, "shop", "--workers", "2", "--announce", TOPIC) as program:
            view = await looked(looking, 2)
            pids = {
                process.told.identity.pid
                for process in view.processes
                if isinstance(process.told, ProcessStatus)
            }
            assert len(pids) == 2
            assert await anyio.to_thread.run_sync(program.end, signal.SIGTERM) == 0, program.output
        assert (await looking.look()).processes == ()


@pytest.mark.lengthy
async def test_a_killed_process_becomes_silent(
    broker: Broker, anyio_backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(APP + '@worker.handler("orders")\nasync def ship(value: str): ...\n')
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", broker.bootstrap)
    monkeypatch.setenv("KSHARE_WORKER_HTTP", "127.0.0.1:0")
    ahead = [0.0]
    async with fleet(broker, wall_clock=lambda: time.time() + ahead[0]) as looking:
        with WorkerProgram(tmp_path, "shop", "--announce", TOPIC) as program:
            (before,) = (await looked(looking, 1)).processes
            program.process.kill()
            await anyio.to_thread.run_sync(program.process.wait)
        assert before.announced is not None
        (after,) = (await looking.look()).processes
        assert isinstance(after.told, NoStatus)
        assert (after.told.why, after.silent_since) == (Why.UNREACHABLE, None)
        ahead[0] = 200.0
        (after,) = (await looking.look()).processes
        assert after.silent_since == before.announced.at


async def test_announced_hosts_are_asked_only_if_they_are_allowed(broker: Broker, anyio_backend: str) -> None:
    broker.create_topic(TOPIC)
    async with serving(json_response()) as url:
        announce(broker, url, "a1")
        async with fleet(broker, allowed=FOR_OTHERS) as looking:
            (process,) = (await looking.look()).processes
            assert isinstance(process.told, NoStatus)
            assert process.told.why is Why.NOT_ALLOWED
        async with fleet(broker, [str(url)], allowed=FOR_OTHERS) as looking:
            (process,) = (await looking.look()).processes
            assert isinstance(process.told, ProcessStatus)  # it is configured, too
            assert process.announced is not None


async def test_another_process_at_an_announced_url(broker: Broker, anyio_backend: str) -> None:
    broker.create_topic(TOPIC)
    async with serving(json_response()) as url, fleet(broker) as looking:
        announce(broker, url)
        (process,) = (await looking.look()).processes
    assert isinstance(process.told, NoStatus)
    assert process.told.why is Why.OTHER_PROCESS
    assert "process id 7 on shop-1" in process.told.text


async def test_configured_workers_are_asked_though_the_topic_is_missing(
    broker: Broker, anyio_backend: str
) -> None:
    async with serving(json_response()) as url, fleet(broker, [str(url)]) as looking:
        view = await looking.look()
    assert isinstance(view.processes[0].told, ProcessStatus)
    (problem,) = view.problems
    assert problem == f"topic {TOPIC} doesn't exist: no worker has announced itself there yet"


async def test_records_that_are_not_announcements_are_a_problem(broker: Broker, anyio_backend: str) -> None:
    broker.create_topic(TOPIC)
    broker.produce(TOPIC, [b"1", b"2"], key=b"x")
    async with fleet(broker) as looking:
        view = await looking.look()
    assert view == FleetView(
        (), (f"topic {TOPIC}: 2 records aren't announcements of workers: it isn't an object in JSON",)
    )


@pytest.mark.parametrize("same", ["url", "id"])
async def test_a_given_process_is_not_hidden_by_an_announcement(
    broker: Broker, anyio_backend: str, same: str
) -> None:
    """Whoever may write to the topic can announce its URL with another id, or its id at another URL."""
    broker.create_topic(TOPIC)
    async with serving(json_response(id="a1")) as url, serving(json_response(id="a1")) as other:
        announce(broker, url if same == "url" else other, "evil" if same == "url" else "a1")
        async with fleet(broker, [str(url)]) as looking:
            (process,) = (await looked(looking, 1)).processes
    assert isinstance(process.told, ProcessStatus)
    assert (process.url, process.told.identity.id, process.announced) == (url, "a1", None)


def test_urls_are_checked() -> None:
    with pytest.raises(ConfigError, match="isn't the URL of a worker"):
        Fleet(["shop-1"])
