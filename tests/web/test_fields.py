"""What users type that can't be right: a page with status 400 says so at once, and keeps the form."""

from __future__ import annotations

import re
import time
from pathlib import Path
from urllib.parse import quote

import anyio
import pytest

from kshare import sync
from kshare.admin.config import admin_settings
from kshare.admin.record_deletion import delete_records_before
from kshare.admin.routing import Router
from kshare.net.pool import Pool
from kshare.testing import Broker
from tests.helpers.consoles import RunningConsole, StartConsole, submit

GROUP = "packers"
SETTING = "share.record.lock.duration.ms"


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders")
    kshare_broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
    kshare_broker.produce("orders", [b"0", b"1", b"2"])
    with sync.ShareConsumer(kshare_broker.bootstrap, group=GROUP, topics=["orders"]) as consumer:
        next(iter(consumer))
    return kshare_broker


@pytest.fixture
def console(start: StartConsole, tmp_path: Path) -> RunningConsole:
    return start(allow_changes=True, audit_log=tmp_path / "audit.log")


async def delete_before(broker: Broker, offset: int) -> None:
    async with Pool(admin_settings(broker.bootstrap, {})) as pool:
        await delete_records_before(Router(pool, 20), "orders", 0, offset)


def post(console: RunningConsole, path: str, form: dict[str, str]) -> tuple[int, str]:
    """Status and text. The form has the token of a session."""
    status, _, text = submit(console, f"/group/offsets?name={GROUP}", path, form)
    return status, text


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("value", "reason"),
    [("7 seconds", "INVALID_CONFIG"), ("7", "INVALID_CONFIG"), (" ", "a value is missing")],
)
def test_a_refused_setting_is_explained_above_the_form(
    console: RunningConsole, value: str, reason: str
) -> None:
    status, text = post(console, "/group/settings", {"name": GROUP, "setting": SETTING, "value": value})
    assert status == 400
    (problem,) = re.findall(r'role="alert">([^<]*)<', text)
    assert reason in problem
    assert SETTING in text
    assert f'value="{value if value.strip() else 30000}" aria-label="New value of {SETTING}"' in text


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "path",
    [
        "/records/topic?topic=orders&since={}",
        "/records/topic?topic=orders&until={}",
        "/records/topic?topic=orders&start=time&from={}",
        "/dead-letters/topic?topic=orders&since={}",
        "/dead-letters/plan?topic=orders&do=redrive-all&until={}",
    ],
)
@pytest.mark.parametrize(
    ("time_", "reason"), [("1969-12-31T23:59:59", "is before 1970"), ("soon", "isn&#39;t a time")]
)
def test_times_of_filters(console: RunningConsole, path: str, time_: str, reason: str) -> None:
    status, _, text = console.request(path.format(quote(time_)))
    assert (status, reason in text) == (400, True)


@pytest.mark.lengthy
@pytest.mark.parametrize("value", ["1969-12-31T23:59:59.999", "0001-01-01T00:00:00+14:00", "soon", ""])
def test_a_time_to_which_offsets_are_reset(console: RunningConsole, value: str) -> None:
    status, text = post(
        console, "/group/offsets", {"name": GROUP, "topic": "", "to": "time", "value": value, "confirm": "1"}
    )
    assert status == 400
    assert "time" in text


@pytest.mark.lengthy
def test_the_time_of_a_job_is_checked_before_it_begins(console: RunningConsole, tmp_path: Path) -> None:
    form = {"action": "drop", "topic": "orders", "letters": "", "since": "soon"}
    status, text = post(console, "/dead-letters/start", form)
    assert (status, "isn&#39;t a time" in text) == (400, True)
    assert (tmp_path / "audit.log").read_text() == ""


@pytest.mark.lengthy
@pytest.mark.parametrize("page", ["/records/record", "/dead-letters/letter"])
def test_an_offset_that_the_log_does_not_have(console: RunningConsole, broker: Broker, page: str) -> None:
    began = time.monotonic()
    for offset in (3, 4, 10**12):
        status, _, text = console.request(f"{page}?topic=orders&partition=0&offset={offset}")
        assert (status, "ends before offset 3" in text) == (404, True)
    anyio.run(delete_before, broker, 2)
    status, _, text = console.request(f"{page}?topic=orders&partition=0&offset=1")
    assert (status, "it was removed: the log begins at offset 2" in text) == (404, True)
    assert time.monotonic() - began < 5
