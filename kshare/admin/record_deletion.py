"""Deletes the oldest records of a partition."""

from __future__ import annotations

from collections.abc import Iterable

from kshare.admin.routing import ResponseError, Router, response_error
from kshare.errors import BrokerError
from kshare.net.permissions import Right
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DeleteRecordsRequest, DeleteRecordsResponse
from kshare.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsTopic


async def delete_records_before(
    router: Router, topic: str, partition: int, offset: int, *, topic_id: bytes | None = None
) -> None:
    """Move the start of the partition's log to this offset. Raises BrokerError, also if the log ends before it.

    DeleteRecords goes by the topic's name. If `topic_id` is given, a topic that was created again since keeps its
    records, unless that happens just before the request arrives.
    """
    timeout_ms = int(1000 * router.pool.settings.request_timeout)
    rows = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])]

    def errors_of(response: DeleteRecordsResponse) -> Iterable[ResponseError | None]:
        for found in response.topics:
            for row in found.partitions:
                action = f"deleting records of {topic}[{partition}] before offset {offset}"
                yield response_error(row, action, Right("Delete", "topic", topic))

    async def step(deadline: float) -> None:
        leader, found_id = await router.leader(topic, partition, deadline)
        if topic_id not in {None, found_id}:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, topic, "the topic was created again")
        await router.ask(leader, DeleteRecordsRequest(rows, timeout_ms), errors_of, deadline)

    await router.retry(step)
