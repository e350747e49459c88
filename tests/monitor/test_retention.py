"""How close unsettled records are to being removed."""

from __future__ import annotations

import pytest

from kshare.monitor.retention import Nearness, Retention, by_age, by_size, bytes_from


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, Retention(True, False, None, None)),
        ({"retention.ms": "-1", "retention.bytes": "-1"}, Retention(True, False, None, None)),
        ({"retention.ms": "5000", "retention.bytes": "7"}, Retention(True, False, 5000, 7)),
        ({"cleanup.policy": "compact", "retention.ms": "5"}, Retention(False, True, 5, None)),
        ({"cleanup.policy": "compact, delete", "retention.ms": None}, Retention(True, True, None, None)),
    ],
)
def test_settings(settings: dict[str, str | None], expected: Retention) -> None:
    assert Retention.of(settings) == expected


def test_age() -> None:
    assert by_age(90, 100_000) == Nearness(0.9, 10)
    assert by_age(120, 100_000) == Nearness(1.2, 0)
    assert by_age(1, 0) == Nearness(1, 0)


def test_size() -> None:
    assert by_size(900, 1000, 50) == Nearness(0.9, 2)
    assert by_size(900, 1000, None) == by_size(900, 1000, 0.0) == Nearness(0.9, None)
    assert by_size(1200, 1000, 50) == Nearness(1.2, 0)
    assert by_size(5, 0, None) == Nearness(1, None)


def test_bytes_behind_an_offset() -> None:
    assert bytes_from(75, 50, 100, 1000) == 500
    assert bytes_from(100, 50, 100, 1000) == bytes_from(0, 0, 0, 0) == 0
