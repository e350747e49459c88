"""What a query says when its topic doesn't exist, or is deleted while it runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from kshare.spark.driver import range_member, topic_watch
from kshare.spark.driver.topic_watch import TopicDeleted
from kshare.spark.existence import UnknownTopic
from kshare.spark.source import ShareStreamReader
from kshare.testing import Broker
from tests.spark.driven import DrivenQuery


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch) -> Iterator[DrivenQuery]:
    monkeypatch.setattr(topic_watch, "GRACE_S", 0.0)
    monkeypatch.setattr(range_member, "_REFRESH_S", 0.05)
    with Broker() as broker:
        yield DrivenQuery(broker)


def test_a_query_of_an_unknown_topic_fails_at_its_start(query: DrivenQuery) -> None:
    reader = query.reader(subscribe=f"{query.topic},nosuch")
    try:
        for call in (
            reader.prepareForTriggerAvailableNow,
            partial(reader.latestOffset, reader.initialOffset()),
        ):
            with pytest.raises(
                UnknownTopic,
                match=r"^topic nosuch does not exist: check the option subscribe, or create it first$",
            ):
                call()
    finally:
        reader.stop()


@pytest.mark.lengthy
def test_a_query_fails_when_its_topic_is_deleted(query: DrivenQuery) -> None:
    reader = query.reader()
    start, deadline = reader.initialOffset(), time.monotonic() + 60
    try:
        assert reader.latestOffset(start) == start
        query.broker.delete_topic(query.topic)
        query.broker.create_topic(query.topic, 2)
        with pytest.raises(TopicDeleted) as caught:
            _ask_until(reader, start, deadline)
    finally:
        reader.stop()
    assert str(caught.value) == (
        f"topic {query.topic} was deleted while the query was running: records of it that the group hadn't received "
        "yet are lost. If it is gone for good, remove it from the option subscribe; then start the query again. With "
        'option("failOnDataLoss", "false"), a query continues when a topic is deleted'
    )


@pytest.mark.lengthy
def test_a_query_may_continue_without_a_topic(query: DrivenQuery, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="kshare.spark")
    reader = query.reader(failOnDataLoss="false")
    start, deadline = reader.initialOffset(), time.monotonic() + 60
    said = (
        f"topic {query.topic} was deleted while the query was running: records of it that the group hadn't received "
        "yet are lost; continuing, because failOnDataLoss is false"
    )
    try:
        reader.latestOffset(start)
        query.broker.delete_topic(query.topic)
        while said not in caplog.messages:
            assert time.monotonic() < deadline
            assert reader.latestOffset(start) == start
    finally:
        reader.stop()
    assert caplog.messages.count(said) == 1


def _ask_until(reader: ShareStreamReader, start: dict[str, Any], deadline: float) -> None:
    while time.monotonic() < deadline:
        reader.latestOffset(start)
