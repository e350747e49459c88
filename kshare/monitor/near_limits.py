"""Groups that are close to a limit: retention is about to remove their records, or no more members can join. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kshare.monitor.retention import WARNING_FROM

NEARLY_FULL = 0.9
"""The part of `group.share.max.size` that is worth a warning."""
_GROUPS_NAMED = 3


def near_limits(members: int | None, most_members: int, oldest_share: float | None) -> Iterator[str]:
    """`oldest_share`: age of the oldest unsettled record, as a share of its topic's retention."""
    if oldest_share is not None and oldest_share >= WARNING_FROM:
        yield f"its oldest unsettled record has reached {oldest_share:.0%} of the retention"
    if members is not None and members >= NEARLY_FULL * most_members:
        yield f"it has {members} of at most {most_members} members"


def near_limits_line(found: Iterable[tuple[str, Sequence[str]]]) -> str | None:
    """One line for all groups that are close to a limit, each with why; None if there are none."""
    close = [(group, reasons) for group, reasons in found if reasons]
    if not close:
        return None
    named = "; ".join(f"{group}: {' and '.join(reasons)}" for group, reasons in close[:_GROUPS_NAMED])
    more = len(close) - _GROUPS_NAMED
    others = f"; and {more} more group{'s' * (more > 1)}" if more > 0 else ""
    name = close[0][0] if len(close) == 1 else "NAME"
    return f"close to a limit: {named}{others}. kshare doctor --group {name} has more"
