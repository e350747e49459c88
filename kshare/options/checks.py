"""Checks of values. They raise ConfigError, which says what is allowed. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from importlib.util import find_spec
from typing import TypeGuard

from kshare.errors import ConfigError

_LONGEST_S = 86_400.0
"""Of most options in seconds: a day."""
_SMALLEST_POSITIVE = math.ulp(0.0)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is a finite number of any sensible size; True and False aren't."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def require_backend(name: object) -> None:
    if name not in ("asyncio", "trio"):
        raise ConfigError(f'backend must be "asyncio" or "trio", not {name!r:.80}')
    if name == "trio" and find_spec("trio") is None:
        raise ConfigError("the backend trio needs the package of that name: pip install trio")


def require_number(name: str, value: object, least: float, most: float) -> float:
    if not is_number(value) or not least <= value <= most:
        raise ConfigError(f"{name} must be a number from {least:,g} to {most:,g}, not {value!r:.80}")
    return float(value)


def require_seconds(
    name: str, value: object, most: float = _LONGEST_S, least: float = _SMALLEST_POSITIVE
) -> float:
    """Zero isn't allowed, unless it is the least value."""
    if not is_number(value) or not least <= value <= most:
        wanted = "a positive number of seconds" if least else "a number of seconds, 0 or more"
        raise ConfigError(f"{name} must be {wanted}, at most {most:,.0f}, not {value!r:.80}")
    return float(value)


def require_choice(name: str, value: object, choices: Iterable[object]) -> None:
    allowed = tuple(choices)
    if value not in allowed:
        raise ConfigError(f"{name} must be {' or '.join(map(repr, allowed))}, not {value!r}")


def require_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be True or False, not {value!r}")


def require_whole(name: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise ConfigError(f"{name} must be a whole number from {least:,} to {most:,}, not {value!r}")
