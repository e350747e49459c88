"""Names that topics may have."""

from __future__ import annotations

import re

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name not in (".", "..")
