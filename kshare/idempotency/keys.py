"""Turns the arguments of a call into a key of the store.

A key is a hash over the function's name and what identifies the call. So it has the same length and alphabet in every
database, and the store contains no names or addresses that the application uses as keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from kshare.errors import ConfigError


def store_key(function: str, identity: object) -> str:
    """The key in the store. A string and its UTF-8 bytes are the same key."""
    if isinstance(identity, str):
        identity = identity.encode("utf-8", "surrogatepass")
    if not isinstance(identity, bytes) or not identity:
        got = "an empty one" if isinstance(identity, bytes) else type(identity).__name__
        raise ConfigError(
            f"{function}: key= must return a string or bytes that aren't empty, and returned {got}. Two calls with "
            "the same key count as one."
        )
    name = function.encode()
    return hashlib.sha256(b"%d:%b%b" % (len(name), name, identity)).hexdigest()


def coordinates(function: str, arguments: Iterable[object]) -> str:
    """Topic, partition and offset of the first argument that has them."""
    for argument in arguments:
        topic = getattr(argument, "topic", None)
        partition = getattr(argument, "partition", None)
        offset = getattr(argument, "offset", None)
        if isinstance(topic, str) and isinstance(partition, int) and isinstance(offset, int):
            return f"{topic}/{partition}/{offset}"
    raise ConfigError(
        f"{function}: no argument has a topic, a partition and an offset, so the call can't be recognized when it is "
        "repeated. Pass key=, a function of the arguments that returns a string or bytes."
    )
