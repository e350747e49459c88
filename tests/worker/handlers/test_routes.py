"""Routes: which topics a handler gets, and their retry topics."""

from __future__ import annotations

import re
from typing import Any

from kshare.client.made_records import made_record
from kshare.worker.handlers.inspection import inspect_handler
from kshare.worker.handlers.options import HandlerOptions
from kshare.worker.handlers.routes import Route
from kshare.worker.rules.retry_topics import RetryTopics


async def ship(value: bytes) -> None: ...


def route(*topics: str, pattern: str | None = None, is_batch: bool = False, **options: Any) -> Route:
    patterns = () if pattern is None else (re.compile(pattern),)
    checked = HandlerOptions(group="g", **options)
    return Route("ship", topics, inspect_handler(ship), checked, is_batch, patterns)


def test_patterns_match_whole_names() -> None:
    found = route("b", pattern="orders-.").matching(
        ["orders-2", "orders-1", "old-orders-1", "orders-10", "a"]
    )
    assert found.topics == ("b", "orders-1", "orders-2")
    assert route("b").matching(["a", "b"]).topics == ("b",)


def test_topics_that_are_named_and_matched_are_not_repeated() -> None:
    assert route("orders", pattern="orders.*").matching(["orders"]).topics == ("orders",)


def test_patterns_never_match_the_handlers_own_retry_topics_and_dead_letters() -> None:
    """It would get copies before they are due, and dead letters at once."""
    one = route(
        "extra", pattern=".*", retry_topics=RetryTopics(tiers=(5.0, 60.0)), dead_letters="orders-dead"
    )
    names = ["orders", "orders.retry.5s", "orders.retry.1m", "extra.retry.1m", "orders-dead", "x.retry.2m"]
    assert one.matching(names).topics == ("extra", "orders", "x.retry.2m")


def test_retry_topics_by_delay() -> None:
    assert route("a").retry_topics() == []
    assert route("a", "b", retry_topics=RetryTopics(tiers=(5.0, 60.0))).retry_topics() == [
        ("a.retry.5s", "b.retry.5s"),
        ("a.retry.1m", "b.retry.1m"),
    ]


def test_lanes() -> None:
    record = made_record("a", b"value", key=b"key")
    assert route("a").lane_of is None
    by_key = route("a", order="key").lane_of
    assert by_key is not None
    assert by_key(record) == b"key"
    by_value = route("a", order=lambda one: one.value).lane_of
    assert by_value is not None
    assert by_value(record) == b"value"


def test_batch_handlers_have_more_records_ready() -> None:
    assert route("a", concurrency=3, batch_size=20).surplus == 0
    assert route("a", is_batch=True, concurrency=3, batch_size=20).surplus == 60
