"""Share sessions: which partitions a member fetches from a node, and the order of its requests.

    request epoch | session           | becomes
    --------------+-------------------+----------------------------------------------------------------
    0             | none, or any      | a new one at epoch 1; refused while acknowledgements come along
    -1            | there is one      | closed once the request is done
    n             | at epoch n        | at epoch n + 1
    n             | at another epoch  | stays; INVALID_SHARE_SESSION_EPOCH
    not 0         | none              | SHARE_SESSION_NOT_FOUND

A session belongs to a member of a group on one node, and ends with the connection that opened it, though requests may
come through others. The records it acquired are handled by `shares`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode

OPEN, CLOSE = 0, -1
_LAST_EPOCH = 2**31 - 1

TopicIdPartition = tuple[bytes, int]
"""Topic id and index."""
SessionKey = tuple[str, str]
"""Group and member."""


@dataclass(slots=True, eq=False)
class ShareSession:
    owner: SessionKey
    connection: int
    """Number of the connection that opened it."""
    epoch: int = 1
    partitions: dict[TopicIdPartition, bool] = field(default_factory=dict)
    """What is fetched; and whether the next answer names it even if there is nothing to say."""

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
        """The partitions, another one first with each epoch: none starves."""
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

    def open(self, owner: SessionKey, connection: int, most: int) -> ShareSession:
        """A new session; an old one of the same owner is forgotten, and what it acquired stays acquired."""
        self._by_owner.pop(owner, None)
        if len(self._by_owner) >= most:
            raise RequestError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, f"{most} share sessions are the most")
        session = self._by_owner[owner] = ShareSession(owner, connection)
        return session

    def next_epoch(self, owner: SessionKey, epoch: int) -> ShareSession:
        """The session, at its next epoch; or as it is for its last request."""
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
        """Whether it was still open."""
        if self._by_owner.get(session.owner) is not session:
            return False
        del self._by_owner[session.owner]
        return True

    def of_connection(self, connection: int) -> list[ShareSession]:
        return [session for session in self._by_owner.values() if session.connection == connection]
