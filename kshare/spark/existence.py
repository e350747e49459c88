"""Checks that topics exist, before records of them are read or acquired, and members of groups.

A member of a share group that subscribes to a topic that doesn't exist waits for it without an error. So a misspelt
name would leave a query running that never gets a record.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from kshare.admin.groups import describe_share_group
from kshare.admin.routing import Router
from kshare.admin.topics import list_topics
from kshare.errors import BrokerError, KshareError
from kshare.protocol.error_codes import ErrorCode
from kshare.wording import nearest_name

GRACE_S = 5.0
"""How long a query waits at its start: brokers learn of a new topic a little after it was created."""
_POLL_S = 0.25

TopicIds = dict[str, bytes]


class UnknownTopic(KshareError):
    """A topic that was subscribed to doesn't exist."""


async def topic_ids(router: Router, topics: Sequence[str], *, grace_s: float = 0.0) -> TopicIds:
    """The ids of these topics. Raises UnknownTopic if one doesn't exist, after `grace_s` seconds."""
    deadline = anyio.current_time() + grace_s
    while True:
        missing: list[str] = []
        found: TopicIds = {}
        for name in topics:
            try:
                response = await router.metadata([name])
            except BrokerError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                missing.append(name)
            else:
                found[name] = response.topics[0].topic_id
        if not missing:
            return found
        if anyio.current_time() >= deadline:
            raise UnknownTopic(unknown(missing) + await _similar(router, missing))
        await anyio.sleep(_POLL_S)


async def _similar(router: Router, missing: Sequence[str]) -> str:
    """The end of the message: topics with similar names, if there are any that we may see."""
    try:
        names = [topic.topic for topic in await list_topics(router, with_internal=False)]
    except KshareError:
        return ""
    near = [name for topic in missing if (name := nearest_name(topic, names))]
    return f". Did you mean {' and '.join(near)}?" if near else ""


def unknown(missing: Sequence[str]) -> str:
    """The message of an error."""
    names, plural = " and ".join(missing), len(missing) > 1
    return (
        f"topic{'s' if plural else ''} {names} {'do' if plural else 'does'} not exist: check the option subscribe, or "
        f"create {'them' if plural else 'it'} first"
    )


async def is_member(router: Router, group: str, member: str) -> bool:
    """Whether the group has this member."""
    try:
        members = (await describe_share_group(router, group)).members
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return False
    return member in {listed.member_id for listed in members}
