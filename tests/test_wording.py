"""Counts, times, and suggestions for misspelt names."""

from __future__ import annotations

import pytest

from kshare.wording import (
    counted,
    did_you_mean,
    duration,
    iso_time,
    nearest_name,
    not_connected,
    suggestion,
    time_limit,
)


def test_similar_names_are_suggested() -> None:
    assert did_you_mean("oders", ["orders", "returns"]) == "; did you mean 'orders'?"
    assert did_you_mean("order", ["orders", "orders2"]) == "; did you mean 'orders' or 'orders2'?"


def test_nothing_is_suggested_without_a_similar_name() -> None:
    assert did_you_mean("x", ["orders"]) == ""


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (counted(1, "record"), "1 record"),
        (counted(1050, "record"), "1,050 records"),
        (counted(2, "fetch", "es"), "2 fetches"),
        (duration(-1), "0 s"),
        (duration(78), "78 s"),
        (duration(7199), "120 min"),
        (duration(86_400), "24 h"),
        (duration(200_000), "2 days"),
        (time_limit(14.9999), "15 s"),
        (time_limit(7.4967), "7.5 s"),
        (time_limit(0.2988), "0.3 s"),
        (time_limit(0.25), "0.25 s"),
        (time_limit(-0.2), "0 s"),
        (time_limit(0.001), "0.1 s"),
        (time_limit(-0.001), "0 s"),
        (not_connected(0.25), "not connected within 0.25 s"),
        (not_connected(0.001), "not connected within 0.1 s"),
        (not_connected(-0.001), "no time was left to connect"),
        (not_connected(0), "no time was left to connect"),
        (iso_time(1), "1970-01-01T00:00:00.001Z"),
        (iso_time(1, "seconds"), "1970-01-01T00:00:00Z"),
        (iso_time(-1), "-"),
        (iso_time(10**30), "-"),
    ],
)
def test_numbers_and_times_are_shown_in_one_way(shown: str, expected: str) -> None:
    assert shown == expected


def test_the_nearest_name() -> None:
    assert suggestion("linegr", ["linger", "acks"]) == "did you mean linger?"
    assert suggestion("zzz", ["linger", "acks"]) == ""
    assert (nearest_name("PLAINTEXT", ["PLAIN"]), nearest_name("SCRAM", ["SCRAM-SHA-256"])) == ("PLAIN", "")
    assert nearest_name("SCRAM", ["SCRAM-SHA-256"], 0.5) == "SCRAM-SHA-256"
