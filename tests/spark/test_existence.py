"""A topic that doesn't exist is an error in one sentence."""

from __future__ import annotations

import threading

import pytest

from kshare.spark import existence
from kshare.spark.backlog import BacklogReader
from kshare.spark.executor.connections import close_connections, connections
from kshare.spark.existence import UnknownTopic, topic_ids
from kshare.spark.options import ReadOptions
from kshare.testing import Broker


def options(broker: Broker, topics: str) -> ReadOptions:
    given = {"kafka.bootstrap.servers": broker.bootstrap, "group": "checking", "subscribe": topics}
    return ReadOptions.parse(given, is_streaming=False)


def test_unknown_topics_are_named() -> None:
    with Broker() as broker:
        broker.create_topic("orders", 1)
        shared = connections(options(broker, "orders").net_settings())
        assert list(shared.submit(topic_ids, shared.router, ["orders"]).result()) == ["orders"]
        with pytest.raises(
            UnknownTopic,
            match=r"^topics oders and refunds do not exist: check the option subscribe, or create them first. Did you "
            r"mean orders\?$",
        ):
            shared.submit(topic_ids, shared.router, ["oders", "orders", "refunds"]).result()
        with pytest.raises(
            UnknownTopic, match=r"^topic oders does not exist: check the option subscribe, or c"
        ):
            BacklogReader(options(broker, "oders")).partitions()
        close_connections()


def test_a_topic_may_be_created_a_little_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(existence, "_POLL_S", 0.01)
    with Broker() as broker:
        shared = connections(options(broker, "late").net_settings())
        asked = threading.Event()

        async def wait() -> existence.TopicIds:
            asked.set()
            return await topic_ids(shared.router, ["late"], grace_s=60.0)

        waiting = shared.submit(wait)
        assert asked.wait(60)
        broker.create_topic("late", 1)
        assert list(waiting.result(60)) == ["late"]
        close_connections()
