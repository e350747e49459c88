"""Names that topics may have, and what is said about others."""

from __future__ import annotations

import re

from kshare.errors import ConfigError

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name not in (".", "..")


def what_to_use(name: str) -> str:
    """What to write instead of a name that no topic may have."""
    partitions = "; partitions can't be chosen here" if ":" in name else ""
    return f"use letters, digits, '.', '_' and '-', at most 249{partitions}"


def require_topic_name(option: str, value: object) -> None:
    """Raises ConfigError for a name that no topic may have."""
    name = value if isinstance(value, str) else ""
    if not is_topic_name(name):
        raise ConfigError(f"{option} {value!r:.300} isn't the name of a topic: {what_to_use(name)}")
