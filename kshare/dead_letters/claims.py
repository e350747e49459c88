"""Checks what a dead letter says of its record. Anybody who may write to the dead-letter topic can write any headers.

A dead letter is the work of a share group that reads the record's topic, and whose config doesn't name another topic
for its dead letters. Without these checks, a redrive would write what strangers choose to topics of their choice, with
the rights of the user who runs it. Groups of kshare's workers, which write dead letters themselves, name none.
"""

from __future__ import annotations

from kshare.admin import configs
from kshare.admin.configs import ConfigResource
from kshare.admin.offsets import share_group_offsets
from kshare.admin.routing import Router
from kshare.dead_letters.dead_letter import DeadLetter, Origin
from kshare.errors import BrokerError
from kshare.protocol.error_codes import ErrorCode
from kshare.wording import shell_word

_LONGEST_GROUP = 1_000
_MOST_GROUPS = 10_000
LETTER_TOPIC = "errors.deadletterqueue.topic.name"
_NO_GROUP = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID)


class Claims:
    """Asks once for each group that dead letters name, unless they name very many."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._read: dict[str, frozenset[str] | BrokerError] = {}
        self._letter_topics: dict[str, str | BrokerError] = {}

    async def doubt(self, letter: DeadLetter, origin: Origin) -> str | None:
        """Why the record may not be from its `origin`, as far as brokers know; None if it may well be."""
        group, topic = letter.group or "", origin.topic
        if not 0 < len(group) <= _LONGEST_GROUP:
            return doubt("it names no share group", topic)
        if group not in self._read:
            if len(self._read) >= _MOST_GROUPS:
                self._read.clear()
                self._letter_topics.clear()
            self._read[group] = await self._topics(group)
        read = self._read[group]
        if isinstance(read, BrokerError):
            return doubt(f"it can't be checked whether group {group} reads topic {topic} ({read})", topic)
        if topic not in read:
            return doubt(f"group {group} doesn't read topic {topic}", topic)
        if group not in self._letter_topics:
            self._letter_topics[group] = await self._letter_topic(group)
        place = self._letter_topics[group]
        if isinstance(place, BrokerError):
            return doubt(
                f"it can't be checked where the dead letters of group {group} belong ({place})", topic
            )
        if place in ("", letter.topic):
            return None
        return doubt(f"the dead letters of group {group} belong in topic {place}", topic)

    async def _topics(self, group: str) -> frozenset[str] | BrokerError:
        try:
            return frozenset(offset.topic for offset in await share_group_offsets(self._router, group, None))
        except BrokerError as error:
            return frozenset() if error.code in _NO_GROUP else error

    async def _letter_topic(self, group: str) -> str | BrokerError:
        """Empty if the group's config doesn't name one, or the brokers are older than dead letters."""
        try:
            entries = await configs.describe(self._router, ConfigResource.GROUP, group, keys=[LETTER_TOPIC])
        except BrokerError as error:
            return error
        return next((entry.value for entry in entries if entry.name == LETTER_TOPIC and entry.value), "")


def doubt(reason: str, topic: str) -> str:
    return (
        f"{reason}, so anyone who can write to the dead-letter topic may have written it; if you trust it, name its "
        f"topic with --to {shell_word(topic)}"
    )
