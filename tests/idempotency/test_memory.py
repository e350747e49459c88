"""The bounds of the store in memory."""

from __future__ import annotations

import pytest

from kshare.errors import ConfigError, StoreFailed
from kshare.idempotency import ClaimState, MemoryStore
from kshare.idempotency.store import CLAIMED
from tests.idempotency.harnesses import Clock

pytestmark = pytest.mark.anyio


async def test_the_oldest_result_is_forgotten_first_and_claims_never() -> None:
    store = MemoryStore(3)
    for key in "abc":
        await store.claim(key, "anne", 60)
    for key in "cb":
        await store.finish(key, "anne", b"1", 60)
    assert await store.claim("d", "anne", 60) == CLAIMED
    assert len(store) == 3
    states = [(await store.claim(key, "bert", 60)).state for key in "ab"]
    assert states == [ClaimState.IN_PROGRESS, ClaimState.DONE]
    assert await store.claim("c", "bert", 60) == CLAIMED


async def test_expired_entries_make_room() -> None:
    clock = Clock()
    store = MemoryStore(2, clock=clock)
    await store.claim("a", "anne", 60)
    await store.claim("b", "anne", 600)
    await store.finish("b", "anne", b"1", 600)
    clock.advance(61)
    await store.claim("c", "anne", 60)
    assert (await store.claim("b", "anne", 60)).state is ClaimState.DONE


async def test_claims_beyond_the_limit_are_refused() -> None:
    store = MemoryStore(1)
    await store.claim("a", "anne", 60)
    with pytest.raises(StoreFailed, match=r"all 1 entries are calls in progress.*Raise max_entries"):
        await store.claim("b", "anne", 60)


@pytest.mark.parametrize("entries", [0, -1])
async def test_a_store_without_entries_is_refused(entries: int) -> None:
    with pytest.raises(ConfigError, match="max_entries"):
        MemoryStore(entries)


async def test_a_full_store_looks_at_few_entries() -> None:
    """It looked at all of them in each call: 9 ms in the event loop with 100,000."""
    compared = 0

    class Moment(float):
        def __add__(self, seconds: float) -> Moment:
            return Moment(float(self) + seconds)

        def __le__(self, other: float) -> bool:
            nonlocal compared
            compared += 1
            return float(self) <= float(other)

    clock = Clock()
    store = MemoryStore(1000, clock=lambda: Moment(clock()))
    for number in range(1010):
        await store.claim(f"{number}", "anne", 60)
        await store.finish(f"{number}", "anne", b"1", 600)
        if number == 999:
            compared = 0
    assert len(store) == 1000
    assert compared <= 10 * 8
    clock.advance(601)
    assert await store.purge() == 1000
    assert len(store) == 0


async def test_an_entry_that_is_claimed_again_expires_later() -> None:
    clock = Clock()
    store = MemoryStore(2, clock=clock)
    for _ in range(3):
        assert await store.claim("a", "anne", 60) == CLAIMED
        clock.advance(59)
    assert await store.purge() == 0
    clock.advance(2)
    assert await store.purge() == 1
