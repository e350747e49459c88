"""Checks of values: what they accept, and that errors say what is allowed."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kshare.errors import ConfigError
from kshare.options.checks import (
    is_number,
    require_choice,
    require_flag,
    require_number,
    require_seconds,
    require_whole,
)


@pytest.mark.parametrize("value", [True, "1", None, math.nan, math.inf, 10**15])
def test_these_are_no_numbers(value: object) -> None:
    assert not is_number(value)


def test_values_that_are_allowed() -> None:
    assert require_number("share", 1, 0, 1) == 1.0
    assert require_seconds("wait", 5e-324) == 5e-324
    assert require_seconds("linger", 0, least=0.0) == 0.0
    require_choice("acquire", "auto", ["auto", "records"])
    require_flag("tls", False)
    require_whole("nodes", 3, 1, 3)


@pytest.mark.parametrize(
    ("check", "arguments", "message"),
    [
        (require_number, ("share", 2, 0, 1), "share must be a number from 0 to 1, not 2"),
        (
            require_seconds,
            ("wait", 0),
            "wait must be a positive number of seconds, at most 86,400, not 0",
        ),
        (
            require_seconds,
            ("wait", -1, 10, 0),
            "wait must be a number of seconds, 0 or more, at most 10, not -1",
        ),
        (
            require_choice,
            ("acquire", "x", ("auto", "records")),
            "acquire must be 'auto' or 'records', not 'x'",
        ),
        (require_flag, ("tls", 1), "tls must be True or False, not 1"),
        (require_whole, ("nodes", True, 1, 1000), "nodes must be a whole number from 1 to 1,000, not True"),
    ],
)
def test_errors_say_what_is_allowed(check: Any, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(*arguments)
    assert str(caught.value) == message
