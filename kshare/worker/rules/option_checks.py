"""Checks of options that several classes have in common. They raise ConfigError. Pure."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TypeGuard

from kshare.errors import ConfigError


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


def require_seconds(name: str, value: object, most: float = 86_400.0) -> float:
    """Zero isn't allowed."""
    if not is_number(value) or not 0 < value <= most:
        raise ConfigError(
            f"{name} must be a positive number of seconds, at most {most:,.0f}, not {value!r:.80}"
        )
    return float(value)
