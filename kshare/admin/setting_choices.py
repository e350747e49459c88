"""Which values a setting of a share group can have, if these can be listed. Pure."""

from __future__ import annotations

from kshare.admin.expected_starts import RESET

BY_DURATION = "by_duration:"
"""The third choice of `share.auto.offset.reset`; an ISO 8601 duration follows."""
_BOOLEANS = ("true", "false")
_CHOICES = {
    RESET: ("earliest", "latest"),
    "share.isolation.level": ("read_uncommitted", "read_committed"),
}


def choices_of(name: str, value: str | None) -> tuple[str, ...]:
    """Empty if any text or number may be allowed. Newer brokers have settings that this code doesn't know: those that
    are true or false now are taken for booleans."""
    if value in _BOOLEANS:
        return _BOOLEANS
    known = _CHOICES.get(name, ())
    is_known = name == RESET or value is None or value in known
    return known if is_known else ()
