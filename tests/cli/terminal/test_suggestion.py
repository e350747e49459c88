"""Suggestions for misspelt names."""

from __future__ import annotations

from kshare.cli.terminal.suggestion import did_you_mean


def test_similar_names_are_suggested() -> None:
    assert did_you_mean("oders", ["orders", "returns"]) == "; did you mean 'orders'?"
    assert did_you_mean("order", ["orders", "orders2"]) == "; did you mean 'orders' or 'orders2'?"


def test_nothing_is_suggested_without_a_similar_name() -> None:
    assert did_you_mean("x", ["orders"]) == ""
