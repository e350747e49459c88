"""Makes share groups that have read topics, without members and without records."""

from __future__ import annotations

from functools import partial

import anyio

from kshare import AdminClient
from kshare.testing import Broker


def make_reader(broker: Broker, group: str, topic: str, partitions: int = 1) -> None:
    """A group that begins at the first record of the topic."""
    anyio.run(
        partial(_make_reader, broker.bootstrap, group, {(topic, number): 0 for number in range(partitions)})
    )


async def _make_reader(bootstrap: str, group: str, offsets: dict[tuple[str, int], int]) -> None:
    async with AdminClient(bootstrap) as admin:
        await admin.alter_share_group_offsets(group, offsets)
