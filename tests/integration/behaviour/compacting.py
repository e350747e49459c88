"""A topic that has been compacted."""

from __future__ import annotations

import anyio

from kshare.protocol.messages import FetchRequest, MetadataRequest
from kshare.protocol.messages.fetch_request import FetchPartition, FetchTopic
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.protocol.records import read_batches
from tests.integration.behaviour.work_queue import DEADLINE_S, WorkQueue

COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "100",
    "delete.retention.ms": "0",
}
WRITTEN, LEFT = 11, [6, 9, 10]


async def compacted(queue: WorkQueue) -> list[int]:
    """Fill the topic and wait until it is compacted. Returns all offsets that still have a record."""
    await queue.send([b"old"] * 5, key=b"often")
    await queue.send([b"stale", b"last"], key=b"often")
    await queue.send([b"a", b"b", b"a", b"b"])
    with anyio.fail_after(DEADLINE_S):
        while [offset for offset in await stored(queue) if offset < WRITTEN] != LEFT:
            await anyio.sleep(0.2)
            await queue.produce(1)  # closes the previous segment, so that it can be compacted
    return await stored(queue)


async def stored(queue: WorkQueue) -> list[int]:
    """The offsets that have a record in the broker's log now."""
    (found,) = (await queue.ask(MetadataRequest([MetadataRequestTopic(name=queue.topic)]))).topics
    offset = 0
    offsets: list[int] = []
    while True:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=2**20)
        topics = [FetchTopic(topic_id=found.topic_id, partitions=[partition])]
        response = await queue.ask(FetchRequest(max_wait_ms=0, topics=topics))
        batches = list(read_batches(response.responses[0].partitions[0].records or b""))
        if not batches:
            return offsets
        offsets += [record.offset for batch in batches for record in batch if record.offset >= offset]
        offset = batches[-1].last_offset + 1
