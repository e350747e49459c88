"""Retry topics: their names, and which one a delay belongs to."""

from __future__ import annotations

from typing import Any

import pytest

from kshare import ConfigError
from kshare.worker.rules.retry_topics import RetryTopics, default_retry_topics, delay_name


@pytest.mark.parametrize(
    ("seconds", "name"),
    [
        (0.25, "250ms"),
        (1, "1s"),
        (90, "90s"),
        (60.0, "1m"),
        (600, "10m"),
        (3600, "1h"),
        (5400, "90m"),
        (86_400, "24h"),
    ],
)
def test_names_of_delays(seconds: float, name: str) -> None:
    assert delay_name(seconds) == name


def test_a_delay_belongs_to_the_first_tier_that_is_long_enough() -> None:
    topics = RetryTopics()
    assert [topics.tier_for(delay) for delay in (0, 60, 60.1, 3600, 10_000)] == [60, 60, 600, 3600, 3600]


def test_names_of_topics() -> None:
    assert RetryTopics().topic("orders", 600) == "orders.retry.10m"
    assert RetryTopics(name="retry-{delay}-{topic}").topic("orders", 60) == "retry-1m-orders"


@pytest.mark.parametrize(
    "tiers", [(), (0,), (60, 10), (60, 60), (100_000,), ("60",), (True,), 60, (float("nan"),)], ids=str
)
def test_invalid_tiers_are_refused(tiers: Any) -> None:
    with pytest.raises(ConfigError, match="tiers must be ascending numbers of seconds"):
        RetryTopics(tiers=tiers)


@pytest.mark.parametrize(
    "name", ["retry", "{topic}.retry", "retry.{delay}", "{topic}-1m", "{topic}.{delay}.{x}", "{}", "{topic"]
)
def test_invalid_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"name must contain \{topic\} and \{delay\}"):
        RetryTopics(name=name)


@pytest.mark.parametrize("name", ["{topic} {delay}", "{topic}/{delay}", "{topic}-{delay}-" + 245 * "x"])
def test_names_that_no_topic_can_have_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="makes no names of topics"):
        RetryTopics(name=name)


def test_retry_topics_are_recognised_by_their_default_names() -> None:
    names = [
        "orders",
        "orders.retry.1m",
        "orders.retry.250ms",
        "orders.retry.1m.retry.1h",
        "orders.retry.soon",
    ]
    others = ["gone.retry.1m", ".retry.1m", "orders-retry-1m", "orders.retry.1m-eu"]
    assert default_retry_topics([*names, *others]) == {*names[1:4]}
