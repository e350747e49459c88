"""Finds out who else gets the records of a redrive: all groups that read a topic get what is written to it.

Only share groups are named, because their subscriptions tell what they read. Consumer groups aren't asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from kshare.admin import groups
from kshare.admin.results import GroupDescription
from kshare.admin.routing import Router
from kshare.errors import BrokerError
from kshare.wording import counted

Reads = Mapping[str, Collection[str]]
"""The topics that a share group reads, by group."""
OtherReaders = Mapping[str, tuple[str, ...]]
"""By topic that records are written to: the other share groups that read it."""

_MOST_NAMED = 5


async def subscriptions(router: Router) -> Reads:
    """What share groups with members read; brokers don't know what others will read.

    Needs a request to each broker, and a few more. Leaves out groups that we may not describe.
    """
    try:
        names = [group.group for group in await groups.list_groups(router, ("share",), ("Stable",))]
        described = await groups.describe_share_groups(router, names)
    except BrokerError:  # the redrive doesn't need it
        return {}
    return {
        name: {topic for member in description.members for topic in member.topics}
        for name, description in described.items()
        if isinstance(description, GroupDescription)
    }


def other_readers(reads: Reads, written: Iterable[tuple[str, str | None]]) -> OtherReaders:
    """`written`: the topics of the records, and the groups that they are meant for."""
    meant: dict[str, set[str | None]] = {}
    for topic, group in written:
        meant.setdefault(topic, set()).add(group)
    return {
        topic: tuple(name for name in sorted(reads) if topic in reads[name] and groups != {name})
        for topic, groups in sorted(meant.items())
    }


def sentences(readers: OtherReaders) -> Iterator[str]:
    """For users, before a redrive."""
    general = "get these records, also consumer groups"
    for topic, others in readers.items():
        if others:
            yield f"all groups that read {topic} {general}; other share groups: {_named(others)}"
    if unknown := [topic for topic, others in readers.items() if not others]:
        yield f"all groups that read {', '.join(unknown)} {general}"


def _named(names: tuple[str, ...]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {counted(more, 'other')}" if more > 0 else "")
