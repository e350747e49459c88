"""Finds out who else gets the records of a redrive: all groups that read a topic get what is written to it again.

Of share groups with members, the subscriptions tell. Brokers don't know what groups without members will read, and
consumer groups aren't asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kshare.admin import groups
from kshare.admin.results import GroupDescription
from kshare.admin.routing import Router
from kshare.dead_letters.redrive import PlannedRedrive
from kshare.errors import BrokerError

OtherReaders = Mapping[str, tuple[str, ...]]
"""By topic that records return to: other share groups that have members now, and get the records again."""


async def other_readers(router: Router, planned: Iterable[PlannedRedrive]) -> OtherReaders:
    """Needs a request to each broker, and a few more. Leaves out groups that we may not describe."""
    losers: dict[str, set[str | None]] = {}
    for one in planned:
        if one.returns_to is not None:
            losers.setdefault(one.returns_to, set()).add(one.letter.group)
    found: dict[str, tuple[str, ...]] = dict.fromkeys(losers, ())
    for group, topics in (await _subscriptions(router) if losers else {}).items():
        for topic in topics & losers.keys():
            if losers[topic] != {group}:
                found[topic] += (group,)
    return found


def sentences(readers: OtherReaders) -> Iterator[str]:
    """For users, before a redrive."""
    general = "get these records again, also consumer groups"
    for topic, others in sorted(readers.items()):
        if others:
            yield f"all groups that read {topic} {general}; other share groups with members: {', '.join(others)}"
    if unknown := [topic for topic, others in sorted(readers.items()) if not others]:
        yield f"all groups that read {', '.join(unknown)} {general}"


async def _subscriptions(router: Router) -> dict[str, set[str]]:
    """The topics that members of share groups subscribe to, by group."""
    try:
        names = [one.group for one in await groups.list_groups(router, ("share",), ("Stable",))]
        described = await groups.describe_share_groups(router, names)
    except BrokerError:  # the redrive doesn't need it
        return {}
    return {
        name: {topic for member in one.members for topic in member.topics}
        for name, one in sorted(described.items())
        if isinstance(one, GroupDescription)
    }
