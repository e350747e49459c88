"""How values are shown."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kshare.web.rendering import DASH, age, clock, make_environment, number, one_line, query, rate, share


def test_unknown_values_are_dashes() -> None:
    assert {number(None), rate(None), share(None), age(None), clock(None)} == {DASH}


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (number(1234567), "1,234,567"),
        (rate(0), "0"),
        (rate(0.25), "0.2"),
        (rate(1234.5), "1,234"),
        (share(0), "0 %"),
        (share(0.004), "< 1 %"),
        (share(0.255), "26 %"),
        (age(5), "5 s"),
        (age(78), "78 s"),
        (age(7300), "2 h"),
        (age(200_000), "2 days"),
        (age(-1), "0 s"),
        (clock(0), "1970-01-01T00:00:00Z"),
        (clock(1e30), "-"),
        (query({"a": "x y&z", "b": None}, {"b": "1", "c": "2"}), "?c=2&a=x+y%26z"),
        (one_line("{\n  1\n}", 8), "{ 1 }"),
        (one_line("a bc", 2), "a\N{HORIZONTAL ELLIPSIS}"),
    ],
)
def test_values_are_shown(shown: str, expected: str) -> None:
    assert shown == expected


@pytest.mark.parametrize(
    ("state", "reason", "shown"),
    [
        ("running", "", "running"),
        ("draining", "the worker is draining", "draining"),
        ("running", "no handler runs", "running: no handler runs"),
    ],
)
def test_the_state_of_a_worker_is_said_once(state: str, reason: str, shown: str) -> None:
    process = SimpleNamespace(state=state, reason=reason, handlers=(), silent_since=None)
    markup = make_environment().get_template("macros.jinja").module.worker_state(process)  # type: ignore[attr-defined]
    assert markup.striptags() == shown


def test_templates_escape_values() -> None:
    template = make_environment().from_string("<p title='{{ value }}'>{{ value }}</p>")
    shown = template.render(value="<script>alert('x')</script>")
    assert "<script>" not in shown
    assert "&#39;" in shown
