"""Functions that users give: wrong ones are refused at once, and not at their first call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kshare.callbacks import is_async, require_callback, require_plain, takes
from kshare.errors import ConfigError


def one(event: object) -> None: ...


async def later(event: object) -> None: ...


class Plain:
    def __call__(self, event: object) -> None: ...


class Later:
    async def __call__(self, event: object) -> None: ...


@pytest.mark.parametrize("function", [one, Plain(), print, lambda *all_of_it: None, functools.partial(one)])
def test_functions_that_can_be_called_are_accepted(function: Callable[..., Any]) -> None:
    require_plain("observer", function, "one argument, the event")
    assert not is_async(function)


@pytest.mark.parametrize("function", [later, Later(), functools.partial(later)])
def test_async_functions_are_refused_where_nobody_awaits_them(function: Callable[..., Any]) -> None:
    assert is_async(function)
    require_callback("hook", function, "one argument, the event")
    with pytest.raises(ConfigError, match=r"^observer must be a plain function, not an async one$"):
        require_plain("observer", function, "one argument, the event")


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (5, (), "^hook must be a function, not 5$"),
        (
            lambda: None,
            ("one argument, the event",),
            r"^hook must take one argument, the event: .* arguments \(\)$",
        ),
        (one, (), r"^hook must take no arguments: .* has the arguments \(event: 'object'\)"),
        (
            one,
            ("two arguments, the delivery", "the exception"),
            "^hook must take two arguments, the delivery and the",
        ),
    ],
)
def test_errors_say_what_it_must_take(function: Any, arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        require_callback("hook", function, *arguments)


def test_decorators_may_give_arguments_or_hide_them() -> None:
    @functools.wraps(one)
    def without_arguments() -> None:
        one("given")

    require_plain("hook", without_arguments)
    require_plain("hook", without_arguments, "one argument, the event")  # as its signature says


def test_functions_without_a_signature_are_accepted() -> None:
    assert takes(max, 1)
    assert not takes(one, 2)


def test_generators_are_refused_whose_bodies_nobody_would_run() -> None:
    def yields(event: object) -> Iterator[object]:
        yield event

    with pytest.raises(
        ConfigError, match=r"^hook must not be a generator, because its body would never run: return"
    ):
        require_callback("hook", yields, "one argument, the event")
