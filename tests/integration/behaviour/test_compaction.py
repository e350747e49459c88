"""Compacted topics: offsets without records."""

from __future__ import annotations

import pytest

from tests.integration.behaviour.compacting import COMPACTED, LEFT, compacted
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import nothing_comes, take

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]


async def test_offsets_without_records_are_skipped_and_settled(
    fresh_queue: FreshQueue,
) -> None:
    """Whole batches were removed, and single records within others."""
    queue = fresh_queue(topic=COMPACTED)
    left = await compacted(queue)
    async with queue.consumer() as source:
        found = await take(source, len(left))
        assert [record.offset for record in found] == left
        assert [record.value for record in found][: len(LEFT)] == [b"last", b"a", b"b"]
        assert set((await source.commit()).values()) == {None}
    async with queue.consumer() as source:
        assert await nothing_comes(source)
