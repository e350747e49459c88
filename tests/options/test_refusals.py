"""Options that have no meaning here: one table, with reasons for whoever takes the option."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from kshare.client.kafka_names import KAFKA_NAMES
from kshare.options.refusals import REFUSED_OPTIONS, Taker, refused_names, why_refused
from kshare.producer.config import _KAFKA_NAMES as NAMES_OF_PRODUCERS


@pytest.mark.parametrize("name", ["auto.offset.reset", "auto_offset_reset", "Auto.Offset.Reset"])
@pytest.mark.parametrize("taker", ["consumer", "producer", "handler", "query"])
def test_any_spelling_is_refused(name: str, taker: Taker) -> None:
    assert why_refused(name, taker).startswith(
        f"{name}: belongs to the share group; set share.auto.offset.reset"
    )


def test_the_unit_may_be_missing() -> None:
    assert "use time_limit" in why_refused("max_poll_interval", "handler")


@pytest.mark.parametrize(
    ("name", "taker", "reason"),
    [
        ("enable.auto.commit", "consumer", 'choose acknowledgement="implicit"'),
        ("enable.auto.commit", "handler", "each record is acknowledged separately"),
        ("enable.auto.commit", "query", "a query doesn't use this setting"),
        ("startingoffsets", "source", "startingOffsets: starting offsets belong to the share group"),
        ("path", "source", r"load\(\)"),
        ("path", "sink", r"save\(\)"),
        ("retries", "producer", "until delivery_timeout"),
        ("value.deserializer", "handler", "annotate the handler's parameter"),
    ],
)
def test_who_takes_it_is_told_what_to_write(name: str, taker: Taker, reason: str) -> None:
    assert re.search(reason, why_refused(name, taker))


@pytest.mark.parametrize(
    ("name", "taker"),
    [("auto.offset.reset", "source"), ("group", "source"), ("path", "consumer"), ("retries", "consumer")],
)
def test_what_is_not_refused(name: str, taker: Taker) -> None:
    assert why_refused(name, taker) == ""


def test_each_row_refuses_something_and_no_name_is_both_accepted_and_refused() -> None:
    assert all(any(row.reason(taker) for taker in get_args(Taker)) for row in REFUSED_OPTIONS.values())
    assert not KAFKA_NAMES.keys() & set(refused_names("consumer"))
    assert not NAMES_OF_PRODUCERS.keys() & set(refused_names("producer"))
