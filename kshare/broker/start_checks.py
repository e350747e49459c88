"""What Kafka checks of its settings when it starts, beyond the type and the range of each.

Bounds must enclose their default. Classes of plug-ins are refused unless Kafka ships them: they can't be loaded here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from kshare.broker.request_error import RequestError
from kshare.broker.settings import BROKER_SETTINGS, listed
from kshare.protocol.error_codes import ErrorCode

_MINIMUM = re.compile(r"group\.(share|consumer)\.min\.(.+)")
_BOUNDED = [
    (setting.name, f"group.{match[1]}.{match[2]}", f"group.{match[1]}.max.{match[2]}")
    for setting in BROKER_SETTINGS
    if (match := _MINIMUM.fullmatch(setting.name))
]
"""Minimum, default, maximum."""
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_ASSIGNORS = "org.apache.kafka.coordinator.group.assignor."
_PROTOCOLS = ("classic", "consumer", "share", "streams")
REBALANCE_PROTOCOLS = "group.coordinator.rebalance.protocols"

Value = Callable[[str], str]
"""Returns the value of a broker setting."""


def check_together(value: Value) -> None:
    """Raises RequestError, which names the settings."""
    for minimum, default, maximum in _BOUNDED:
        _require_order(value, minimum, default)
        _require_order(value, default, maximum)
    for kind in ("share", "consumer"):
        heartbeat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
        if int(value(heartbeat)) >= int(value(session)):
            raise _refusal(f"{_shown(heartbeat, value)} must be less than {_shown(session, value)}")
    _require_order(value, "group.share.max.size", "group.share.max.share.sessions")
    _check_names(value, "group.consumer.assignors", _with_classes("uniform", "range"))
    _check_names(value, REBALANCE_PROTOCOLS, _PROTOCOLS)
    if "classic" not in listed(value(REBALANCE_PROTOCOLS)):
        raise _refusal(f"{REBALANCE_PROTOCOLS}: Disabling the 'classic' protocol is not supported.")
    _check_authorizer(value)


def super_users(value: str) -> list[str]:
    """The items of the setting `super.users`: names may contain commas."""
    return [user.strip() for user in value.split(";") if user.strip()]


def _with_classes(*names: str) -> list[str]:
    return [*names, *(f"{_ASSIGNORS}{name.title()}Assignor" for name in names)]


def _check_names(value: Value, setting: str, allowed: Collection[str]) -> None:
    items = listed(value(setting))
    for item in items:
        if item not in allowed:
            raise _refusal(f"{setting}: {item} is unknown here, write {' or '.join(allowed)}")
    if not items:
        raise _refusal(f"{setting} must not be empty")


def _check_authorizer(value: Value) -> None:
    name = value("authorizer.class.name")
    if not name:
        return
    if name != AUTHORIZER:
        raise _refusal(f"authorizer.class.name: {name} can't be loaded here, write {AUTHORIZER}")
    for user in super_users(value("super.users")):
        kind, colon, _ = user.partition(":")
        if not colon or not kind:
            raise _refusal(
                "super.users: expected a string in format principalType:principalName, such as User:alice, "
                f"but got {user}"
            )


def _require_order(value: Value, lower: str, higher: str) -> None:
    if int(value(lower)) > int(value(higher)):
        raise _refusal(f"{_shown(higher, value)} must be greater than or equal to {_shown(lower, value)}")


def _shown(name: str, value: Value) -> str:
    return f"{name} ({value(name)})"


def _refusal(reason: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_CONFIG, reason)
