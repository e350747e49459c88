"""A member of a share group in a conversation: builds the requests of scripts, and counts session epochs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kshare.protocol.messages import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kshare.protocol.messages import share_acknowledge_request as acknowledge
from kshare.protocol.messages import share_fetch_request as fetch
from tests.integration.conversation.talk import Talk

ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0
Range = tuple[int, int, int | Sequence[int]]
"""First offset, last offset, and one type for all or one for each."""


class Sharer:
    """One member on one topic, with a separate connection."""

    def __init__(
        self, talk: Talk, group: str, topic: str, label: str = "member", via: str | None = None
    ) -> None:
        self.talk = talk
        self.group = group
        self.topic = topic
        self.topic_id = talk.topic_ids.get(topic, b"?" * 16)
        self.id = talk.member(label)
        self.via = via or label
        self.epoch = 0
        self.member_epoch = 0

    # --- the group

    def heartbeat(self, epoch: int, topics: Iterable[str] | None = None) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(
            self.group, self.id, epoch, None, None if topics is None else list(topics)
        )

    def join(self, partitions: int = 1) -> None:
        """Join, and wait until at least `partitions` are assigned. Responses aren't compared."""
        requests = iter([self.heartbeat(0, [self.topic])])

        def is_assigned(response: ShareGroupHeartbeatResponse) -> bool:
            assert response.error_code == 0, response
            self.member_epoch = response.member_epoch
            found = response.assignment.topic_partitions if response.assignment else []
            return sum(len(topic.partitions) for topic in found) >= partitions

        self.talk.wait_for(lambda: next(requests, self.heartbeat(self.member_epoch)), is_assigned)

    def leave(self) -> None:
        self.talk.quietly(self.heartbeat(-1))

    # --- the session

    def fetch_request(
        self,
        epoch: int | None = None,
        *,
        most: int = 500,
        wait_ms: int = 0,
        partitions: Iterable[int] | None = None,
        acks: Mapping[int, Sequence[Range]] | None = None,
        forget: Iterable[int] = (),
        **fields: Any,
    ) -> ShareFetchRequest:
        """Default of `partitions`: partition 0 when the session opens, later those with acknowledgements."""
        epoch = self.epoch if epoch is None else epoch
        acks = acks or {}
        if partitions is None:
            partitions = acks or ([0] if epoch == 0 else [])
        rows = [
            fetch.FetchPartition(
                number, [fetch.AcknowledgementBatch(f, e, _types(t)) for f, e, t in acks.get(number, ())]
            )
            for number in partitions
        ]
        forgotten = list(forget)
        values: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.id,
            "share_session_epoch": epoch,
            "max_wait_ms": wait_ms,
            "min_bytes": 1,
            "max_records": most,
            "batch_size": most,
            "topics": [fetch.FetchTopic(self.topic_id, rows)] if rows else [],
            "forgotten_topics_data": [fetch.ForgottenTopic(self.topic_id, forgotten)] if forgotten else [],
        }
        return ShareFetchRequest(**values | fields)

    def fetch(self, epoch: int | None = None, **options: Any) -> ShareFetchResponse:
        """Fetch, and compare the response. The epoch is increased if the session continues."""
        request = self.fetch_request(epoch, **options)
        response = self.talk.ask(request, self.via)
        self._go_on(request.share_session_epoch, response.error_code)
        return response

    def gather(self, records: int) -> None:
        """Fetch until this many records are acquired. Compares which they are, but not the number of responses."""
        acquired: list[tuple[int, int, int]] = []
        while sum(last - first + 1 for _, first, last in acquired) < records:
            response = self.talk.quietly(self.fetch_request(wait_ms=5000), self.via)
            assert response.error_code == 0, response
            assert response.responses, response
            self._go_on(self.epoch, response.error_code)
            acquired += [
                (row.partition_index, range_.first_offset, range_.last_offset)
                for topic in response.responses
                for row in topic.partitions
                for range_ in row.acquired_records
            ]
        self.talk.note("gathered", sorted(acquired))

    def open(self, **options: Any) -> None:
        """Open a session without fetching records. Not compared, since the share-partition may not be loaded yet."""
        request = self.fetch_request(0, **{"most": 0} | options)
        response = self.talk.quietly(request, self.via)
        self._go_on(0, response.error_code)

    def acknowledge(
        self, *ranges: Range, epoch: int | None = None, partition: int = 0, **fields: Any
    ) -> ShareAcknowledgeResponse:
        """Acknowledge, and compare the response."""
        return self.acknowledge_many({partition: ranges}, epoch, **fields)

    def acknowledge_many(
        self, acks: Mapping[int, Sequence[Range]], epoch: int | None = None, **fields: Any
    ) -> ShareAcknowledgeResponse:
        epoch = self.epoch if epoch is None else epoch
        rows = [
            acknowledge.AcknowledgePartition(
                number, [acknowledge.AcknowledgementBatch(f, e, _types(t)) for f, e, t in ranges]
            )
            for number, ranges in acks.items()
        ]
        values: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.id,
            "share_session_epoch": epoch,
            "topics": [acknowledge.AcknowledgeTopic(self.topic_id, rows)] if rows else [],
        }
        response = self.talk.ask(ShareAcknowledgeRequest(**values | fields), self.via)
        self._go_on(epoch, response.error_code)
        return response

    def _go_on(self, epoch: int, error: int) -> None:
        if not error:
            self.epoch = 0 if epoch == -1 else epoch + 1


def _types(types: int | Sequence[int]) -> bytes:
    return bytes([types & 0xFF]) if isinstance(types, int) else bytes(t & 0xFF for t in types)
