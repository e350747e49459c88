"""The pages of worker processes, in a browser: real workers, killed ones, and endpoints that lie."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from playwright.sync_api import Page, expect

from kshare.testing import Broker
from kshare.worker import Retry, Worker
from kshare.worker.watch.status_url import StatusUrl
from tests.cli.worker.worker_programs import APP, WorkerProgram
from tests.fleet.pages import a_page, response, serving
from tests.helpers.accessibility import assert_accessible
from tests.helpers.browsing import LOOKS, OpenPage
from tests.helpers.consoles import DEADLINE_S, RunningConsole, StartConsole, eventually
from tests.helpers.page_facts import assert_fits, tab_through
from tests.helpers.running_worker import from_the_start

TOPIC = "kshare-workers"
WINDOW = 100
"""The smallest limit of an in-flight window."""
HOSTILE = "<script>alert('s')</script><img src=x onerror=alert('i')>\"'"


expect.set_options(timeout=DEADLINE_S * 1000)


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders")
    from_the_start(kshare_broker, "shippers")
    return kshare_broker


@pytest.fixture
def console(start: StartConsole) -> RunningConsole:
    """Finds workers of this machine that are announced."""
    return start(worker_topic=TOPIC, worker_hosts=("127.0.0.0/8",))


@contextmanager
def working(worker: Worker) -> Iterator[None]:
    with start_blocking_portal("asyncio", name="worker") as portal:
        served, _ = portal.start_task(worker.serve)
        try:
            yield
        finally:
            portal.call(worker.stop)
            served.result(DEADLINE_S)


@contextmanager
def endpoint(act: bytes) -> Iterator[StatusUrl]:
    """Something that responds with these bytes."""
    with (
        start_blocking_portal("asyncio", name="endpoint") as portal,
        portal.wrap_async_context_manager(serving(act)) as url,
    ):
        yield url


def status(**changes: Any) -> bytes:
    return response(json.dumps(a_page(**changes)).encode())


def a_worker(broker: Broker, may_end: threading.Event, **options: Any) -> Worker:
    """Its handler `ship` waits at records with the value `wait`."""
    worker = Worker(
        broker.bootstrap, group="shippers", http="127.0.0.1:0", client_id="shop", drain_timeout=1, **options
    )

    @worker.handler("orders", concurrency=4, retry=Retry(attempts=7))
    async def ship(order: bytes) -> None:
        while order == b"wait" and not may_end.is_set():
            await anyio.sleep(0.01)

    return worker


@pytest.fixture
def may_end() -> Iterator[threading.Event]:
    """Set at the end, so that workers can stop."""
    event = threading.Event()
    yield event
    event.set()


def test_without_configuration_the_page_says_how(start: StartConsole, page: Page, broker: Broker) -> None:
    page.goto(f"{start().url}/workers")
    commands = page.get_by_label("Commands")
    expect(commands).to_contain_text("--announce kshare-workers")
    expect(commands).to_contain_text(f"--bootstrap-server {broker.bootstrap} --worker-topic kshare-workers")
    assert_accessible(page)


def test_what_a_worker_is_doing_now(
    console: RunningConsole, page: Page, broker: Broker, may_end: threading.Event
) -> None:
    page.goto(f"{console.url}/workers")
    expect(page.locator("#processes")).to_contain_text("No worker process is known")
    broker.produce("orders", [b"quick", b"wait"])
    with working(a_worker(broker, may_end, announce=TOPIC)):
        row = page.locator("#processes tbody tr")  # without loading the page again
        expect(row).to_contain_text("shippers")
        expect(row.locator("td").nth(3)).to_have_text("running")
        expect(row.locator("td").nth(4)).to_have_text("1")
        row.get_by_role("link").first.click()
        run = page.get_by_role("region", name="Runs in progress").locator("tbody tr")
        expect(run.get_by_role("rowheader")).to_have_text("orders[0]@1")
        expect(run).to_contain_text("ship")
        expect(run.locator("td").nth(3)).to_have_text("1")
        expect(run.locator("td").nth(4)).to_have_text("1 of 7")
        link = run.get_by_role("link")
        assert link.get_attribute("href") == "/records/record?topic=orders&partition=0&offset=1"
        handler = page.get_by_role("region", name="Handlers").locator("tbody tr")
        expect(handler).to_contain_text("shippers")
        expect(handler).to_contain_text("closed")
        expect(page.locator("#process")).to_contain_text("shop")
        may_end.set()
        expect(page.locator("#runs")).to_contain_text("No handler is running")
    expect(page.locator("#process")).to_contain_text("isn't known, or not any more")
    page.get_by_role("link", name="All processes").click()
    expect(page.locator("#processes")).to_contain_text("No worker process is known")


def test_a_group_names_the_run_that_holds_it(
    console: RunningConsole, page: Page, broker: Broker, may_end: threading.Event
) -> None:
    broker.set_group_config(
        "shippers",
        {"share.auto.offset.reset": "earliest", "share.partition.max.record.locks": str(WINDOW)},
    )
    broker.produce("orders", [b"wait"])
    for _ in range(3):  # of a batch, all records are acquired
        broker.produce("orders", [b"quick"] * WINDOW)
    with working(a_worker(broker, may_end, announce=TOPIC)):
        page.goto(f"{console.url}/?q=shippers")
        expect(page.locator("#groups")).to_contain_text("101 %")
        expect(page.locator("#groups")).to_contain_text("so it may exceed its limit")
        page.get_by_role("row", name=re.compile("shippers")).get_by_role("link").click()
        expect(page.locator(".partition h3")).to_contain_text(
            "window 101 of 100 offsets (whole batches are acquired"
        )
        trouble = page.locator(".note.problem").first
        expect(trouble).to_contain_text("Held by handler ship of the worker process on")
        expect(trouble).to_contain_text(f"(process id {os.getpid()}): offset 0, running for")
        expect(trouble).to_contain_text("delivery 1, attempt 1.")
        todo = trouble.get_by_role("group", name="Commands")
        expect(todo).to_contain_text("kshare groups describe shippers")
        expect(todo).to_contain_text(f"# process {os.getpid()} on ")
        expect(todo).to_contain_text("holds offset 0: let handler ship finish, or end the process")
        assert_accessible(page)
        trouble.get_by_role("link", name="the worker process").click()
        expect(page.get_by_role("region", name="Runs in progress")).to_contain_text("orders[0]@0")
        page.get_by_role("link", name="shippers").click()
        page.locator("#group-totals").get_by_role("link", name="1").click()
        expect(page.get_by_text("Only processes with handlers of group shippers")).to_be_visible()
        expect(page.locator("#processes tbody tr")).to_have_count(1)
        may_end.set()


def test_a_stalled_partition_names_the_runs_in_it(
    console: RunningConsole, page: Page, broker: Broker, may_end: threading.Event
) -> None:
    broker.set_group_config(
        "shippers",
        {"share.auto.offset.reset": "earliest", "share.partition.max.record.locks": str(WINDOW)},
    )
    broker.produce("orders", [b"quick"])
    for _ in range(2 * WINDOW):
        broker.produce("orders", [b"wait"])
    with working(a_worker(broker, may_end, announce=TOPIC)):
        page.goto(f"{console.url}/?q=shippers")
        row = page.get_by_role("row", name=re.compile("shippers"))
        expect(row).to_contain_text("1 stalled partition")
        row.get_by_role("link").click()
        trouble = page.locator(".note.problem").first
        expect(trouble).to_contain_text("nothing was settled or released for")
        expect(trouble).to_contain_text(
            re.compile(rf"\(process id {os.getpid()}\): offset [1-4], running for")
        )
        expect(trouble).not_to_contain_text("See what these processes")
        may_end.set()


@pytest.mark.lengthy
def test_a_killed_worker_does_not_respond_and_is_silent_later(
    console: RunningConsole, page: Page, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(APP + '@worker.handler("orders")\nasync def ship(value: str): ...\n')
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", broker.bootstrap)
    monkeypatch.setenv("KSHARE_WORKER_HTTP", "127.0.0.1:0")
    page.goto(f"{console.url}/workers")
    state = page.locator("#processes tbody tr td").nth(3)
    with WorkerProgram(tmp_path, "shop", "--announce", TOPIC) as program:
        expect(state).to_have_text("running")
        program.process.kill()
        program.process.wait(DEADLINE_S)
    expect(state).to_contain_text("no response: the connection was refused: nothing listens there")
    announced = json.loads(broker.records(TOPIC)[-1].value or b"")
    again = json.dumps(announced | {"interval_s": 0.01}).encode()  # nobody waits for three minutes
    broker.produce(TOPIC, [again], key=announced["id"].encode())
    expect(state).to_contain_text("silent: the connection was refused")
    expect(state).to_contain_text(re.compile(r"\. Last announced: 2.*Z\.$"))
    page.locator("#processes tbody a").first.click()
    expect(page.locator("#process")).to_contain_text("silent")
    page.goto(f"{console.url}/group?name=shippers")
    expect(page.locator("#unheard")).to_contain_text(f"process id {program.process.pid}: silent: ")
    expect(page.locator("#unheard")).to_contain_text(re.compile(r"Last response: 2\S*Z\. Last announced: 2"))
    assert_accessible(page)


GARBAGE = [
    (response(b"<html>a web site"), "its response isn't the status of a worker: it isn't JSON"),
    (status(pid="7"), "pid must be a whole number"),
    (status(host="x" * 301), "host must be no longer than 300 characters"),
    (response(b"", status="302 Found", headers="Location: http://192.0.2.1/\r\n"), "302"),
]


@pytest.mark.parametrize(("act", "reason"), GARBAGE, ids=["web site", "wrong type", "long", "redirect"])
def test_a_garbage_endpoint_is_explained(start: StartConsole, page: Page, act: bytes, reason: str) -> None:
    with endpoint(act) as url:
        page.goto(f"{start(worker_urls=(str(url),)).url}/workers")
        row = page.locator("#processes tbody tr")
        expect(row).to_contain_text("no status")
        expect(row).to_contain_text(reason)
        row.get_by_role("link").click()
        expect(page.locator("#process")).to_contain_text(reason)
        expect(page.locator("#handlers")).to_be_empty()


def test_announced_hosts_that_are_not_allowed_are_explained(
    start: StartConsole, page: Page, broker: Broker, may_end: threading.Event
) -> None:
    with working(a_worker(broker, may_end, announce=TOPIC)):
        page.goto(f"{start(worker_topic=TOPIC).url}/workers")
        expect(page.locator("#processes tbody tr")).to_contain_text(
            "not asked: it was announced at 127.0.0.1 (127.0.0.1), which isn't among the hosts that may be asked"
        )


def test_records_that_are_not_announcements_are_a_problem(
    console: RunningConsole, page: Page, broker: Broker
) -> None:
    broker.create_topic(TOPIC)
    broker.produce(TOPIC, [b"<script>alert(1)</script>"], key=b"x")
    page.goto(f"{console.url}/workers")
    expect(page.get_by_role("status")).to_contain_text("1 record isn't an announcement of workers")


@pytest.fixture
def hostile_url() -> Iterator[StatusUrl]:
    """A process whose every text is a script, or as long as it may be."""
    handler, *_ = a_page()["handlers"]
    run = handler["runs"][0] | {"topic": HOSTILE}
    handlers = [
        handler | {"handler": HOSTILE, "group": HOSTILE, "topics": [HOSTILE] * 20, "runs": [run]},
        handler | {"handler": "W" * 300, "group": "W" * 300, "breaker": "open", "unheard_s": 99},
        *[handler] * 58,
    ]
    texts = {"host": HOSTILE, "version": HOSTILE, "client_id": HOSTILE, "id": HOSTILE, "reason": HOSTILE}
    with endpoint(status(handlers=handlers, state="draining", pid=2**63 - 1, **texts)) as url:
        yield url


def test_what_a_process_says_is_never_executed(
    start: StartConsole, page: Page, hostile_url: StatusUrl
) -> None:
    page.goto(f"{start(worker_urls=(str(hostile_url),)).url}/workers")
    expect(page.locator("#processes tbody tr")).to_contain_text(HOSTILE)
    page.locator("#processes tbody tr").get_by_role("link").first.click()
    expect(page.get_by_role("region", name="Handlers").locator("tbody tr").first).to_contain_text(HOSTILE)
    expect(page.get_by_role("region", name="Runs in progress")).to_contain_text(f"{HOSTILE}[2]@17")
    page.get_by_label("Pages of runs").get_by_role("link", name="Next").click()
    expect(page.get_by_role("region", name="Runs in progress").locator("tbody tr")).to_have_count(10)
    assert page.locator("script:not([src]), img").count() == 0


@LOOKS
def test_pages_are_accessible(
    start: StartConsole, open_page: OpenPage, hostile_url: StatusUrl, viewport: object, colours: str
) -> None:
    page = open_page(viewport=viewport, color_scheme=colours)
    with endpoint(response(b"{}")) as other:
        page.goto(f"{start(worker_urls=(str(hostile_url), str(other))).url}/workers?sort=runs")
        expect(page.locator("#processes tbody tr")).to_have_count(2)
        _assert_flawless(page)
        page.locator("#processes tbody tr").first.get_by_role("link").first.click()
        expect(page.get_by_role("region", name="Handlers")).to_be_visible()
        _assert_flawless(page)


def test_processes_are_sorted_and_filtered(start: StartConsole, page: Page) -> None:
    with endpoint(status(host="b", pid=1)) as one, endpoint(status(host="a", pid=2, id="a2")) as two:
        page.goto(f"{start(worker_urls=(str(one), str(two))).url}/workers")
        hosts = page.locator("#processes tbody th")
        expect(hosts).to_have_text(["a", "b"])
        page.get_by_role("link", name="Host").click()
        expect(hosts).to_have_text(["b", "a"])
        page.get_by_role("link", name="Process", exact=True).click()
        expect(hosts).to_have_text(["a", "b"])
        page.get_by_label("Host, client or group contains").fill("B")
        page.get_by_role("button", name="Filter").click()
        expect(hosts).to_have_text(["b"])


def test_the_keyboard_alone_is_enough(start: StartConsole, page: Page) -> None:
    with endpoint(status()) as url:
        page.goto(f"{start(worker_urls=(str(url),)).url}/workers")
        expect(page.locator("#processes tbody tr")).to_be_visible()
        focused = tab_through(page)
        assert all(element.has_outline for element in focused)
        assert {"Skip to the content", "Filter", "Host", "shop-1", "g"} <= {
            element.name for element in focused
        }
        page.get_by_role("link", name="shop-1").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("Worker process on shop-1")


def test_pages_are_readable_without_javascript(start: StartConsole, open_page: OpenPage) -> None:
    page = open_page(java_script_enabled=False)
    with endpoint(status()) as url:
        console = start(worker_urls=(str(url),))
        eventually(lambda: console.request("/workers")[2], lambda text: "shop-1" in text)
        page.goto(f"{console.url}/workers")
        page.locator("#processes tbody tr").get_by_role("link").first.click()
        expect(page.get_by_role("region", name="Runs in progress")).to_contain_text("orders[2]@17")


def _assert_flawless(page: Page) -> None:
    assert_accessible(page)
    assert_fits(page)
