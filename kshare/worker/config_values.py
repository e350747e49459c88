"""Converts values from TOML files and environment variables to the types of options. Pure.

Tables change parts of an option: `retry = {attempts = 3}` keeps everything else of the policy that was set in code.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from kshare.errors import ConfigError
from kshare.net.settings import NetSettings, Security
from kshare.options.mistakes import Mistakes
from kshare.wording import suggestion
from kshare.worker.handlers.options import HandlerOptions
from kshare.worker.rules.adaptive import Adaptive
from kshare.worker.rules.breaker import Breaker
from kshare.worker.rules.retry import Exponential, Retry
from kshare.worker.rules.retry_topics import RetryTopics

HINTS: dict[str, Any] = {
    **get_type_hints(NetSettings),
    **get_type_hints(Security),
    **get_type_hints(HandlerOptions),
    "bootstrap_servers": str,
    "drain_timeout": float,
    "http": str | None,
    "announce": str | None,
    "announce_url": str,
}
"""The type of each option."""

_TABLES: dict[str, tuple[type[Any], str]] = {
    "retry": (Retry, "a table such as {attempts = 3, delay = 10}"),
    "breaker": (Breaker, "false, or a table such as {probe_after = 10}"),
    "retry_topics": (RetryTopics, "true, false, or a table such as {tiers = [60, 600]}"),
    "concurrency": (Adaptive, "a whole number, or a table such as {least = 1, most = 100}"),
}
"""Options that may be tables, and examples."""
_IN_CODE = ("never", "by_error")
"""Parts of a retry policy that name classes."""
_BOOLEANS = {"true": True, "false": False}
_CALLABLE = get_origin(Callable[[], None])


def parse_text(option: str, text: str) -> Any:
    """The value of an environment variable, as a TOML file would give it. Raises ConfigError."""
    kinds = _alternatives(HINTS[option])
    is_off = option in ("http", "announce") and text.lower() == "false"  # passwords may be "false", too
    if is_off or (not text and NoneType in kinds):
        return False
    if any(is_dataclass(kind) for kind in kinds):
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            raise ConfigError(f"must be {_TABLES[option][1]}, not {text!r}") from None
    if bool in kinds:
        if text.lower() not in _BOOLEANS:
            raise ConfigError(f"must be true or false, not {text!r}")
        return _BOOLEANS[text.lower()]
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(text)
            except ValueError:
                raise ConfigError(
                    f"must be a {'whole ' if kind is int else ''}number, not {text!r}"
                ) from None
    return text


def to_option(option: str, value: Any, base: Any) -> Any:
    """The value of an option, from what TOML gives. `base` is the present value, of which a table changes parts.

    `false` stands for None, which TOML doesn't have.
    """
    kinds = _alternatives(HINTS[option])
    if is_function(option):
        raise ConfigError(f"{option} is a function: set it in code")
    if value is False and NoneType in kinds:
        return None
    if option not in _TABLES:
        return value
    kind, example = _TABLES[option]
    present = base if isinstance(base, kind) else kind()
    if isinstance(value, Mapping):
        return _changed(present, value, option)
    if isinstance(value, bool) and bool in kinds:
        return value and present
    if isinstance(value, int) and int in kinds:
        return value
    raise ConfigError(f"{option} must be {example}, not {value!r}")


def is_function(option: str) -> bool:
    """Whether only code can set the option."""
    return all(kind is NoneType or get_origin(kind) is _CALLABLE for kind in _alternatives(HINTS[option]))


def _changed(base: Any, table: Mapping[str, Any], path: str) -> Any:
    names = [field.name for field in fields(base) if field.name not in _IN_CODE]
    changes: dict[str, Any] = {}
    mistakes = Mistakes()
    for name, value in table.items():
        if name in _IN_CODE:
            mistakes.add(f"{path}.{name} needs exception classes: set it in code")
        elif name not in names:
            hint = suggestion(name, names) or f"there are {', '.join(names)}"
            mistakes.add(f"{path} has no {name}: {hint}")
        else:
            with mistakes:
                changes[name] = _part(base, name, value, path)
    try:
        with mistakes:
            changed = replace(base, **changes)
    except TypeError:
        mistakes.add(f"{path}: a value has the wrong type in {dict(table)!r}")
    mistakes.raise_all()
    return changed


def _part(base: Any, name: str, value: Any, path: str) -> Any:
    if name == "delay" and isinstance(value, Mapping):
        present = base.delay if isinstance(base.delay, Exponential) else Exponential()
        return _changed(present, value, f"{path}.delay")
    return tuple(value) if isinstance(value, list) else value


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
