"""Which workers are known from the records of the topic, whoever has written them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kshare.fleet import announcements
from kshare.fleet.announcements import REMEMBERED_S, Announcements, parse_announcement
from kshare.fleet.json_table import NotExpected
from kshare.worker.watch.announcement import AnnouncedHandler, Announcement, announcement_value
from kshare.worker.watch.process_identity import identify_process
from kshare.worker.watch.status_url import StatusUrl

NOW = 10_000.0


def announcement(id_: str = "a1", host: str = "shop-1", started_at: float = 1.0) -> Announcement:
    return Announcement(
        identity=replace(identify_process("shop"), id=id_, started_at=started_at),
        url=StatusUrl("http", host, 8080),
        handlers=(AnnouncedHandler("ship", "g"),),
        interval_s=60.0,
    )


def take(found: Announcements, one: Announcement, at: float = NOW) -> None:
    found.take(one.identity.id.encode(), announcement_value(one), at, NOW)


def ids(found: Announcements, now: float = NOW) -> list[str]:
    return [process.announcement.identity.id for process in found.known(now)]


def test_what_a_worker_announces_is_read_as_it_was() -> None:
    assert parse_announcement("a1", announcement_value(announcement())) == announcement()


def test_the_latest_record_of_each_counts() -> None:
    found = Announcements()
    take(found, announcement("b", "shop-2", started_at=2.0), NOW - 100)
    take(found, announcement("a"), NOW - 50)
    take(found, announcement("b", "shop-2", started_at=2.0), NOW - 20)
    assert [(process.announcement.identity.id, process.at) for process in found.known(NOW)] == [
        ("a", NOW - 50),
        ("b", NOW - 20),
    ]
    found.take(b"a", None, NOW, NOW)
    assert ids(found) == ["b"]
    found.take(b"never seen", None, NOW, NOW)
    assert ids(found) == ["b"]


def test_silent_and_then_forgotten() -> None:
    found = Announcements()
    take(found, announcement("a"))
    (one,) = found.known(NOW)
    assert one.silent_since(NOW + 180) is None
    assert one.silent_since(NOW + 181) == NOW
    assert ids(found, NOW + REMEMBERED_S) == ["a"]
    assert ids(found, NOW + REMEMBERED_S + 1) == []


def test_a_record_from_the_future_keeps_nobody_alive() -> None:
    found = Announcements()
    take(found, announcement("a"), at=NOW * 1000)
    assert found.known(NOW)[0].at == NOW


def test_a_later_process_at_the_same_url_takes_its_place() -> None:
    found = Announcements()
    take(found, announcement("killed", started_at=1.0))
    take(found, announcement("restarted", started_at=2.0))
    take(found, announcement("elsewhere", "shop-2", started_at=3.0))
    assert ids(found) == ["restarted", "elsewhere"]


def test_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "MOST_PROCESSES", 3)
    found = Announcements()
    for number in range(5):
        take(found, announcement(f"{number}", f"shop-{number}", started_at=number))
    assert ids(found) == ["2", "3", "4"]


def test_only_so_many_bytes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler of 28 bytes takes many times as much memory."""
    size = len(announcement_value(announcement("0", "shop-0", started_at=1000.5)))
    monkeypatch.setattr(announcements, "MOST_BYTES", 3 * size)
    found = Announcements()
    for number in range(5):
        take(found, announcement(f"{number}", f"shop-{number}", started_at=1000.5))
        take(found, announcement(f"{number}", f"shop-{number}", started_at=1000.5))
    assert ids(found) == ["2", "3", "4"]
    found.take(b"4", None, NOW, NOW)
    take(found, announcement("5", "shop-5", started_at=1000.5))
    assert ids(found) == ["2", "3", "5"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"schema": 2}, "schema 2"),
        ({"id": "b"}, "its key isn't the id"),
        ({"url": "http://localhost/admin"}, "the path must be /status"),
        ({"url": "http://user:secret@shop"}, "username"),
        ({"url": 7}, "url must be a text"),
        ({"handlers": [{"handler": "ship"}]}, r"handlers\[0\]\.group must be a text"),
        ({"interval_s": -1}, "interval_s must be"),
        ({"interval_s": 1e9}, "interval_s must be"),
        ({"host": "x" * 500_000}, "more than"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], reason: str) -> None:
    value = json.dumps(json.loads(announcement_value(announcement())) | changes).encode()
    with pytest.raises(NotExpected, match=reason):
        parse_announcement("a1", value)


@pytest.mark.parametrize(("key", "value"), [(None, b"x"), (b"\xff", b"{}"), (b"a", b""), (b"", b"[]")])
def test_records_that_are_not_announcements_are_counted(key: bytes | None, value: bytes) -> None:
    found = Announcements()
    found.take(key, value, NOW, NOW)
    assert (found.unreadable, bool(found.reason), ids(found)) == (1, True, [])
