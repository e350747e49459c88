"""Deletes the oldest records of a partition."""

from __future__ import annotations

from collections.abc import Iterable

from kshare.admin.routing import ResponseError, Router, response_error
from kshare.errors import BrokerError
from kshare.net.permissions import Right
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DeleteRecordsRequest, DeleteRecordsResponse
from kshare.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsTopic


async def delete_records_before(router: Router, topic: str, partition: int, offset: int) -> None:
    """Move the start of the partition's log to this offset. Raises BrokerError, also if the log ends before it."""
    timeout_ms = int(1000 * router.pool.settings.request_timeout)
    rows = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])]

    def errors_of(answer: DeleteRecordsResponse) -> Iterable[ResponseError | None]:
        for found in answer.topics:
            for row in found.partitions:
                yield response_error(
                    row.error_code,
                    f"deleting records of {topic}[{partition}] before offset {offset}",
                    needs=[Right("Delete", "topic", topic)],
                )

    async def step(deadline: float) -> None:
        answer = await router.metadata([topic], deadline)
        leaders = {row.partition_index: row.leader_id for row in answer.topics[0].partitions}
        if leaders.get(partition, -1) < 0:
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}[{partition}]")
        await router.ask(leaders[partition], DeleteRecordsRequest(rows, timeout_ms), errors_of, deadline)

    await router.retry(step)
