"""A group that has settled a record of a topic, and a console that shows it."""

from __future__ import annotations

from kshare import sync
from kshare.testing import Broker
from tests.helpers.consoles import RunningConsole, StartConsole, eventually

GROUP = "packers"


def with_packers(broker: Broker, records: int = 1) -> Broker:
    """This broker, with so many records in topic orders."""
    broker.create_topic("orders")
    broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
    broker.produce("orders", [b"x"] * records)
    with sync.ShareConsumer(broker.bootstrap, group=GROUP, topics=["orders"]) as consumer:
        next(iter(consumer))
    return broker


def showing_packers(start: StartConsole, **options: object) -> RunningConsole:
    """A console, once it has the group's page."""
    started = start(interval_s=0.1, **options)
    eventually(lambda: started.request(f"/group?name={GROUP}")[0], lambda status: status == 200)
    return started
