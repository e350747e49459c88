"""What a drain leaves behind: whether the query ends normally, and what it says then.

Nobody looks at the lag of a query that has ended normally. Never waits, and asks no broker.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from kshare.errors import KshareError
from kshare.wording import shell_word

log = logging.getLogger("kshare.spark")

_NAMED = 10
"""How many partitions a message names."""


def undelivered_ranges(
    ends: Mapping[tuple[str, int], int], reached: Mapping[tuple[str, int], int]
) -> list[str]:
    """The offsets before `ends` that haven't been delivered. Partitions that `reached` leaves out are finished."""
    return [
        f"{topic}[{number}] from offset {reached[topic, number]} to {end - 1}"
        for (topic, number), end in sorted(ends.items())
        if reached.get((topic, number), end) < end
    ]


def report_rest(group: str, rest: Sequence[str], quiet: float, *, responds_early: bool) -> None:
    """Raises KshareError if others can't be the reason: a broker responds to fetches at once, without records."""
    if not rest:
        return
    others = f" and {len(rest) - _NAMED} other partitions" if rest[_NAMED:] else ""
    names = f"{', '.join(rest[:_NAMED])}{others}"
    if responds_early:
        raise KshareError(
            f"group {group} hasn't delivered all records: {names}. Nothing has arrived for {int(quiet)} s, and a "
            "broker responds to fetches at once, without records. Brokers do so if records were deleted in the middle "
            "of a producer batch, until no consumer of the group has a session with them: stop all consumers of the "
            "group at the same time, then start the query again"
        )
    log.warning(
        "the query ends although group %s hasn't delivered all records: %s. Nothing has arrived for %d s: "
        "another consumer may keep them locked, or a broker doesn't deliver them. `kshare groups describe %s` "
        "shows the lag; the next start of the query tries again",
        group,
        names,
        int(quiet),
        shell_word(group),
    )
