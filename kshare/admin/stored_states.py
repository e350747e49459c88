"""The stored states of share-partitions, as far as we are authorized to read them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kshare.admin.routing import Router
from kshare.admin.share_states import StateLog
from kshare.admin.state_trail import StateTrail
from kshare.errors import BrokerError
from kshare.protocol.error_codes import ErrorCode
from kshare.state.share_records import SharePartitionKey, SharePartitionState


class StoredStates:
    """Has no states if we aren't authorized to read the topic, or if it doesn't exist."""

    def __init__(self, router: Router) -> None:
        self._log = StateLog(router)
        self._is_unauthorized = False

    @property
    def trails(self) -> Mapping[SharePartitionKey, StateTrail]:
        """The history of the requested share-partitions, and of others in the same partitions of the topic."""
        return self._log.trails.of

    async def of_groups(self, groups: Collection[str]) -> dict[SharePartitionKey, SharePartitionState] | None:
        """The current states of all share-partitions of these groups; None if we can't read the topic."""
        if self._is_unauthorized:
            return None
        try:
            await self._log.read_all()
        except BrokerError as error:
            self._is_unauthorized = error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return None
        return {where: state for where, state in self._log.states.items() if where.group in groups}

    async def of(self, wanted: Iterable[SharePartitionKey]) -> dict[SharePartitionKey, SharePartitionState]:
        """The current states. Reads only what was stored since the previous call."""
        where = list(wanted)
        if not where or self._is_unauthorized:
            return {}
        try:
            await self._log.read(where)
        except BrokerError as error:
            self._is_unauthorized = error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return {}
        states = self._log.states
        return {one: states[one] for one in where if one in states}
