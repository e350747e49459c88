"""Share sessions: which partitions a member fetches from a node, and the order of its requests.

    request epoch | session           | becomes
    --------------+-------------------+----------------------------------------------------------------
    0             | none, or any      | a new one at epoch 1; an error if the request has acknowledgements
    -1            | there is one      | closed once the request is done
    n             | at epoch n        | at epoch n + 1
    n             | at another epoch  | stays; INVALID_SHARE_SESSION_EPOCH
    not 0         | none              | SHARE_SESSION_NOT_FOUND

A session belongs to a member of a group on one node. It ends with the connection that opened it, though its requests
may arrive on others. `shares` releases its records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kshare.broker.cluster import TopicIdPartition
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode

OPEN, CLOSE = 0, -1
_LAST_EPOCH = 2**31 - 1

SessionKey = tuple[str, str]
"""Group id and member id."""


@dataclass(slots=True, eq=False)
class ShareSession:
    owner: SessionKey
    connection: int
    """The number of the connection that opened it."""
    epoch: int = 1
    partitions: dict[TopicIdPartition, bool] = field(default_factory=dict)
    """The partitions to fetch, and whether the next response must contain them even without records."""

    @property
    def group(self) -> str:
        return self.owner[0]

    @property
    def member(self) -> str:
        return self.owner[1]

    def change(self, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]) -> None:
        for partition in added:
            self.partitions.setdefault(partition, True)
        for partition in forgotten:
            self.partitions.pop(partition, None)

    def rotated(self) -> list[TopicIdPartition]:
        """The partitions, starting with another one for each epoch, so that none starves."""
        partitions = list(self.partitions)
        shift = self.epoch % len(partitions) if partitions else 0
        return partitions[shift:] + partitions[:shift]


class ShareSessions:
    """The sessions of one node."""

    def __init__(self) -> None:
        self._by_owner: dict[SessionKey, ShareSession] = {}

    def __len__(self) -> int:
        return len(self._by_owner)

    def find(self, owner: SessionKey) -> ShareSession | None:
        return self._by_owner.get(owner)

    def open(self, owner: SessionKey, connection: int, max_sessions: int) -> ShareSession:
        """A new session. It replaces an old one of the same owner, whose records stay acquired."""
        self._by_owner.pop(owner, None)
        if len(self._by_owner) >= max_sessions:
            raise RequestError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED, f"{max_sessions} share sessions is the limit"
            )
        session = self._by_owner[owner] = ShareSession(owner, connection)
        return session

    def next_epoch(self, owner: SessionKey, epoch: int) -> ShareSession:
        """The session, at its next epoch unless the request closes it."""
        session = self._by_owner.get(owner)
        if session is None:
            raise RequestError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch == CLOSE:
            return session
        if epoch != session.epoch:
            raise RequestError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH, f"the session is at epoch {session.epoch}"
            )
        session.epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
        return session

    def close(self, session: ShareSession) -> bool:
        """Returns False if it was closed already."""
        if self._by_owner.get(session.owner) is not session:
            return False
        del self._by_owner[session.owner]
        return True

    def has_group(self, group: str) -> bool:
        return any(session.group == group for session in self._by_owner.values())

    def of_connection(self, connection: int) -> list[ShareSession]:
        return [session for session in self._by_owner.values() if session.connection == connection]
