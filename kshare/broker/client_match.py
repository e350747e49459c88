"""Which clients a client metrics subscription is for: the config `match`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kshare.broker.request_error import RequestError
from kshare.broker.settings import listed
from kshare.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kshare.broker.linear_regex import LinearRegex

_ATTRIBUTES = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def parse_match(value: str) -> Mapping[str, LinearRegex]:
    """The patterns in a subscription's `match`, by attribute. Raises RequestError if one is invalid.

    Kafka takes Java's regular expressions here; those that only backtracking can match are refused.
    """
    # Rarely needed.
    from kshare.broker.consumer_groups.regexes import compiled

    patterns = {}
    for item in listed(value):
        name, equals, pattern = item.partition("=")
        name = name.strip()
        if not equals or name not in _ATTRIBUTES:
            raise RequestError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {item}")
        try:
            patterns[name] = compiled(pattern.strip())
        except ValueError as problem:
            reason = f"Illegal client matching pattern: {item}: {problem}"
            raise RequestError(ErrorCode.INVALID_CONFIG, reason) from None
    return patterns
