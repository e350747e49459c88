"""Makes places in logs whose records no longer exist, as compaction leaves them."""

from __future__ import annotations

from kshare.protocol.record_builder import BatchBuilder
from kshare.testing import Broker


def lose(broker: Broker, topic: str, partition: int, end: int) -> None:
    """Let the log end there, if it ends before, and the topic exists: a batch whose records were all removed."""

    def write() -> None:
        found = broker.state.cluster.find(topic)
        if found is None or partition >= len(found.partitions):
            return
        log, now = found.partitions[partition].log, broker.state.clock.now()
        if log.end_offset < end:
            data = BatchBuilder().build(last_offset=end - log.end_offset - 1)
            log.append(data, now=now, leader_epoch=0, from_client=False)

    broker.call(write)
