"""Creates dead letters with a consumer that rejects all records."""

from __future__ import annotations

from kshare import sync


def reject(bootstrap: str, group: str, topic: str, count: int) -> None:
    """Reject `count` records, batch by batch."""
    with sync.ShareConsumer(bootstrap, group=group, topics=[topic], acknowledgement="explicit") as consumer:
        for batch in consumer.batches():
            batch.reject()
            count -= len(batch)
            if not count:
                break
