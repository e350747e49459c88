"""What a member of a group has to be told: its group and topics, how it fetches, and how it reaches the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from kshare.net.settings import NetSettings
from kshare.state.request_planner import AcquireMode


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """Settings of a member, validated by the caller. Durations are in seconds."""

    net: NetSettings
    group: str
    topics: tuple[str, ...]
    """The initial subscription: see `GroupMember.subscribe`."""
    rack: str | None
    acquire: AcquireMode
    close_timeout: float
    """For settling, ending sessions and leaving the group."""
