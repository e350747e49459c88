"""Checks what a dead letter says of its record. Anybody who may write to the dead-letter topic can write any headers.

A dead letter is the work of a share group that reads the record's topic. Without this check, a redrive would write
what strangers choose to topics of their choice, with the rights of the user who runs it.
"""

from __future__ import annotations

from kshare.admin.offsets import share_group_offsets
from kshare.admin.routing import Router
from kshare.dead_letters.dead_letter import DeadLetter, Origin
from kshare.errors import BrokerError
from kshare.protocol.error_codes import ErrorCode
from kshare.wording import shell_word

_LONGEST_GROUP = 1_000
_NO_GROUP = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID)


class Claims:
    """Asks once for each group that dead letters name."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._read: dict[str, frozenset[str] | BrokerError] = {}

    async def doubt(self, letter: DeadLetter, origin: Origin) -> str | None:
        """Why the record may not be from its `origin`, as far as brokers know; None if it may well be."""
        group, topic = letter.group or "", origin.topic
        if not 0 < len(group) <= _LONGEST_GROUP:
            return _doubt("it names no share group", topic)
        if group not in self._read:
            self._read[group] = await self._topics(group)
        read = self._read[group]
        if isinstance(read, BrokerError):
            return _doubt(f"it can't be checked whether group {group} reads topic {topic} ({read})", topic)
        return None if topic in read else _doubt(f"group {group} doesn't read topic {topic}", topic)

    async def _topics(self, group: str) -> frozenset[str] | BrokerError:
        try:
            return frozenset(one.topic for one in await share_group_offsets(self._router, group, None))
        except BrokerError as error:
            return frozenset() if error.code in _NO_GROUP else error


def _doubt(reason: str, topic: str) -> str:
    return (
        f"{reason}, so anybody who may write to the dead-letter topic can have written it; if you trust it, name its "
        f"topic with --to {shell_word(topic)}"
    )
