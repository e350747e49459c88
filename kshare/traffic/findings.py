"""The linter's findings: which rule was broken, by which member, and how.

`LinterRule` is the base class of all rules. A rule checks one thing and describes a violation in one sentence. It keeps
only the state that it needs for this; the linter decides which violations are reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, NamedTuple

from kshare.offset_ranges import join_adjacent
from kshare.traffic.exchange import Exchange
from kshare.traffic.group_tracker import GroupTracker, HeartbeatEvent, ShareEvent
from kshare.traffic.members import ObservedMember, ObservedSession
from kshare.traffic.names import Names
from kshare.traffic.share_exchange import Partition


class Severity(StrEnum):
    PROTOCOL_ERROR = "forbidden"
    """The protocol doesn't allow it: brokers refuse it, or something is lost."""
    HARMFUL = "harmful"
    """It is allowed but causes problems."""


class Violation(NamedTuple):
    """A violation of a rule by a member. Violations with different subjects are reported separately."""

    member: ObservedMember | None
    text: str
    subject: object = None
    client_id: str | None = None
    """If the client isn't known as a member."""


Violations = Iterable[Violation]


class LinterRule:
    """The base class of rules. Each rule is instantiated once for a run of the linter."""

    name: ClassVar[str]
    level: ClassVar[Severity]
    about: ClassVar[str]
    """Why it matters and what to do, in one or two sentences."""
    sees_all_exchanges: ClassVar[bool] = False
    """Whether `on_share_exchange` is also called if `ShareEvent.is_in_order`."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        return ()

    def on_heartbeat(self, heartbeat_event: HeartbeatEvent) -> Violations:
        return ()

    def on_surplus(self, exchange: Exchange) -> Violations:
        """Called if bytes are left over after a request or response of any API."""
        return ()

    def on_time(self, tracker: GroupTracker, now: float) -> Violations:
        """Called about once a second, and at the end."""
        return ()

    def on_closed(self, member: ObservedMember, session: ObservedSession, now: float) -> Violations:
        """Called if a connection ends while this session is open on it."""
        return ()

    def on_finish(self, tracker: GroupTracker, now: float) -> Violations:
        return ()

    def where(self, partition: Partition) -> str:
        return self.names.partition(*partition)


@dataclass(slots=True, eq=False)
class Finding:
    """The first violation of its kind, or the tenth, the hundredth; those in between are only counted."""

    rule: str
    level: Severity
    time: float
    group: str
    member: str
    client_id: str | None
    text: str
    count: int = 1
    """How often it has been found so far."""


def surplus_text(size: int) -> str:
    return "1 byte is left over" if size == 1 else f"{size} bytes are left over"


def span_text(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def spans_text(spans: Sequence[tuple[int, int]], max_spans: int = 3) -> str:
    """90-99, 103, 107 and 4 more"""
    if len(spans) == 1:
        return span_text(*spans[0])
    texts = [span_text(first, last) for first, last in join_adjacent(spans)]
    more = f" and {len(texts) - max_spans} more" if len(texts) > max_spans else ""
    return ", ".join(texts[:max_spans]) + more
