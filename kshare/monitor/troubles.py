"""Describes what blocks a share-partition: a full in-flight window, locks that nobody sees, or records that retention
removed; who holds the records as far as can be told, and what to do.

All commands use the same sentences. Times are counted from what brokers have stored, so they are lower bounds: see
`kshare.admin.state_trail`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kshare.admin.expected_starts import RESET
from kshare.admin.results import FULL_FROM, Member, PartitionProgress
from kshare.admin.window_limits import USUAL_LIMIT
from kshare.wording import counted, duration, shell_word

_MEMBERS_NAMED = 3


def troubles(
    group: str, found: Iterable[PartitionProgress], members: Sequence[Member], now: float
) -> Iterator[str]:
    """One line for each problem, for below a table. Without members, nobody holds records of a full window."""
    for partition in found:
        holders = [each for each in members if (partition.topic, partition.partition) in each.assignment]
        if holders and partition.is_window_full:
            yield pinned(group, partition, holders, now)
        if partition.removed:
            yield removed(partition)


def pinned(group: str, one: PartitionProgress, holders: Sequence[Member], now: float) -> str:
    """A full window, in full: since when, who holds its first record, and where to read what to do."""
    return f"{full_window(one)}. {first_record(one, holders, now)}. {what_to_do(group)}"


def full_window(one: PartitionProgress) -> str:
    size = f"{one.window_span or 0:,} of {one.window_limit or 0:,} offsets"
    waiting = f"{counted(one.waiting, 'record')} behind it {'waits' if one.waiting == 1 else 'wait'}"
    return (
        f"{name_of(one)}: in-flight window full: {size}, from offset {one.start_offset} on, which isn't settled; "
        f"{waiting}"
    )


def about_window(one: PartitionProgress) -> str:
    """What the numbers of a full window count: fewer records are locked, and the window needn't be at its limit."""
    span, limit = one.window_span or 0, one.window_limit or 0
    settled = (
        "" if one.window_open is None else f" ({span - one.window_open:,} of these {span:,} are settled)"
    )
    text = (
        "The window counts all offsets from the first unsettled one to the last one known to have been delivered, "
        f"settled ones and gaps included{settled}"
    )
    if span >= limit:
        return text
    return (
        f"{text}. It counts as full from {FULL_FROM:.0%} of its limit on, because brokers don't tell which records "
        "behind it are locked"
    )


def first_record(one: PartitionProgress, holders: Sequence[Member], now: float) -> str:
    """What is known of the record that keeps the window where it is."""
    held = f"is held by {possible_holders(holders)}" if holders else "is assigned to no member"
    return _of_offset(one, [*_history(one, now), held])


def first_record_history(one: PartitionProgress, now: float) -> str:
    """What `first_record` says, but for who holds the record; empty if nothing is known. `now`: seconds since 1970."""
    known = _history(one, now)
    return _of_offset(one, known) if known else ""


def _history(one: PartitionProgress, now: float) -> list[str]:
    known = []
    if one.start_since is not None:
        known.append(f"has been the first unsettled one for at least {duration(now - one.start_since)}")
    if one.start_deliveries:
        known.append(
            f"was released {'once' if one.start_deliveries == 1 else f'{one.start_deliveries} times'}"
        )
    return known


def _of_offset(one: PartitionProgress, known: Sequence[str]) -> str:
    *first, last = known
    return f"Offset {one.start_offset} {', '.join(first)}{' and ' * bool(first)}{last}"


def stalled(one: PartitionProgress, holders: Sequence[Member], quiet: float) -> str:
    """What stands still, and what members do that settle nothing, as far as can be told."""
    return f"{standing_still(one, quiet)}. {not_settling(holders, _waiting_count(one), one.window_limit)}"


def standing_still(one: PartitionProgress, quiet: float) -> str:
    """Nothing was settled or released for `quiet` seconds, or ever, although records wait."""
    count = _waiting_count(one)
    if one.start_offset is None:
        return (
            f"{name_of(one)}: no record was ever settled or released, and "
            f"{_waiting(count, one.expected_start or 0)}, the first of them for at least {duration(quiet)}"
        )
    return (
        f"{name_of(one)}: {_waiting(count, one.start_offset)}, and nothing was settled or released for at "
        f"least {duration(quiet)}"
    )


def _waiting_count(one: PartitionProgress) -> int:
    if one.start_offset is None:
        return max(0, (one.end_offset or 0) - (one.expected_start or 0))
    return one.lag or 0


def _waiting(count: int, first: int) -> str:
    return f"{counted(count, 'record')} {'waits' if count == 1 else 'wait'} from offset {first} on"


def total_lag(partitions: Iterable[PartitionProgress]) -> int | None:
    """None if that of a partition with records is unknown: a sum of the others would be too low."""
    total = 0
    for partition in partitions:
        is_empty = partition.end_offset is not None and partition.end_offset == partition.log_start_offset
        if partition.lag is None and not is_empty:
            return None
        total += partition.lag or 0
    return total


def lag_unknown(one: PartitionProgress) -> str | None:
    """Why the lag is unknown, if that is because nothing was settled or released yet."""
    if one.start_offset is not None or one.lag is not None or one.end_offset is None:
        return None
    reason = f"{RESET} can't be read" if one.reset is None else f"{RESET} is {one.reset}"
    return (
        f"nothing was settled or released yet, and {reason}: brokers don't tell where the group has started"
    )


def not_settling(holders: Sequence[Member], waiting: int, limit: int | None) -> str:
    """What members do that settle nothing, as far as can be told: brokers don't store locks."""
    most = limit or USUAL_LIMIT
    held = f" (up to {most:,}: an in-flight window full of locks)" if waiting > most else ""
    return (
        f"The partition is assigned to {member_names(holders)}: either records are held without being settled{held}, "
        "by it or by a member that had the partition before, or none are fetched. See what these processes wait for"
    )


def unknown_lags(found: Iterable[PartitionProgress]) -> str | None:
    """One sentence about all partitions of a group whose lag is unknown because nothing was settled yet."""
    unknown = [(partition, reason) for partition in found if (reason := lag_unknown(partition)) is not None]
    if not unknown:
        return None
    (first, reason), *others = unknown
    more = f" and {counted(len(others), 'more partition')}" if others else ""
    return f"{name_of(first)}{more}: lag unknown: {reason}"


def what_to_do(group: str) -> str:
    return (
        f"Have it settled, or end the process that holds it (kshare groups describe {shell_word(group)} --members); "
        f"kshare doctor --group {shell_word(group)} has more"
    )


def removed(one: PartitionProgress) -> str:
    were = "was" if one.removed == 1 else "were"
    return (
        f"{name_of(one)}: {counted(one.removed, 'record')} before offset {one.log_start_offset} {were} removed from "
        "the topic (retention or DeleteRecords) before the group settled them"
    )


def member_names(members: Sequence[Member], *, is_any: bool = False) -> str:
    """Members by client id, member id and host. `is_any`: only one of them is meant, and it isn't known which."""
    names = [f"{member.client_id} ({member.member_id}) on {member.host}" for member in members]
    more = len(names) - _MEMBERS_NAMED
    text = ", ".join(names[:_MEMBERS_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"one of {text}" if is_any and len(names) > 1 else text


def possible_holders(assigned: Sequence[Member]) -> str:
    """Who may hold a record: a member keeps what it has acquired when the partition is assigned to another."""
    return f"{member_names(assigned, is_any=True)}, or by a member that had the partition before"


def name_of(one: PartitionProgress) -> str:
    return f"{one.topic}[{one.partition}]"
