"""The overview: what is counted, and what is marked."""

from __future__ import annotations

import pytest

from kshare import sync
from kshare.testing import Broker
from tests.helpers.consoles import StartConsole, eventually

TRACKER = "kshare-dlq-dlq.orders"


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders")
    kshare_broker.produce("orders", [b"x"])
    for group in ("packers", TRACKER):
        kshare_broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})
        with sync.ShareConsumer(kshare_broker.bootstrap, group=group, topics=["orders"]) as consumer:
            next(iter(consumer))
    return kshare_broker


def test_groups_that_track_dead_letters_are_counted_and_marked(start: StartConsole) -> None:
    console = start()
    text = eventually(lambda: console.request("/")[2], lambda text: f"{TRACKER}</a>" in text)
    assert "1 of the groups keeps track of dead letters." in text
    assert f"{TRACKER}</a> <small>keeps track of dead letters</small>" in text
    assert text.count("<small>keeps track of dead letters</small>") == 1
    assert "Members and unsettled records are those of the others" in text


def test_a_dead_letter_topic_that_does_not_exist_is_marked(start: StartConsole, broker: Broker) -> None:
    """As `kshare doctor` says it."""
    broker.set_group_config("packers", {"errors.deadletterqueue.topic.name": "dlq.none"})
    console = start()
    mark = 'dlq.none <strong class="mark problem">doesn&#39;t exist</strong>'
    text = eventually(lambda: console.request("/")[2], lambda text: f"{TRACKER}</a>" in text)
    assert mark in text
    assert mark in console.request("/group?name=packers")[2]
