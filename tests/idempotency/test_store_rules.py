"""Every store follows the same rules."""

from __future__ import annotations

import anyio
import pytest

from kshare.idempotency import ClaimState
from kshare.idempotency.store import CLAIMED
from tests.idempotency.harnesses import Harness

pytestmark = pytest.mark.anyio

KEY, OTHER_KEY = "0" * 64, "1" * 64
ANNE, BERT = "a" * 32, "b" * 32


async def test_a_claim_excludes_others_until_it_expires(every_store: Harness) -> None:
    store, advance = every_store
    assert await store.claim(KEY, ANNE, 60) == CLAIMED
    refused = await store.claim(KEY, BERT, 60)
    assert refused.state is ClaimState.IN_PROGRESS
    assert 0 < refused.expires_in <= 60
    assert await store.claim(OTHER_KEY, BERT, 60) == CLAIMED
    advance(61)
    assert await store.claim(KEY, BERT, 60) == CLAIMED


async def test_a_claim_that_is_sent_twice_is_one_claim(every_store: Harness) -> None:
    store, _ = every_store
    assert await store.claim(KEY, ANNE, 60) == CLAIMED
    assert await store.claim(KEY, ANNE, 60) == CLAIMED


@pytest.mark.parametrize("result", [b"", b"null", bytes(range(256)) * 100])
async def test_a_result_is_returned_until_it_expires(every_store: Harness, result: bytes) -> None:
    store, advance = every_store
    await store.claim(KEY, ANNE, 60)
    assert await store.finish(KEY, ANNE, result, 1000)
    advance(990)
    done = await store.claim(KEY, BERT, 60)
    assert (done.state, done.result) == (ClaimState.DONE, result)
    advance(11)
    assert await store.claim(KEY, BERT, 60) == CLAIMED


async def test_a_result_that_is_sent_twice_is_stored(every_store: Harness) -> None:
    store, _ = every_store
    await store.claim(KEY, ANNE, 60)
    assert await store.finish(KEY, ANNE, b"1", 1000)
    assert await store.finish(KEY, ANNE, b"1", 1000)
    assert (await store.claim(KEY, ANNE, 60)).result == b"1"


async def test_an_abandoned_key_can_be_claimed(every_store: Harness) -> None:
    store, _ = every_store
    await store.claim(KEY, ANNE, 60)
    await store.abandon(KEY, BERT)
    assert (await store.claim(KEY, BERT, 60)).state is ClaimState.IN_PROGRESS
    await store.abandon(KEY, ANNE)
    assert await store.claim(KEY, BERT, 60) == CLAIMED


async def test_a_result_cant_be_abandoned(every_store: Harness) -> None:
    store, _ = every_store
    await store.claim(KEY, ANNE, 60)
    await store.finish(KEY, ANNE, b"1", 1000)
    await store.abandon(KEY, ANNE)
    assert (await store.claim(KEY, BERT, 60)).state is ClaimState.DONE


async def test_a_late_owner_changes_nothing(every_store: Harness) -> None:
    store, advance = every_store
    await store.claim(KEY, ANNE, 60)
    advance(61)
    await store.claim(KEY, BERT, 60)
    assert not await store.finish(KEY, ANNE, b"late", 1000)
    await store.abandon(KEY, ANNE)
    assert (await store.claim(KEY, ANNE, 60)).state is ClaimState.IN_PROGRESS
    assert await store.finish(KEY, BERT, b"second", 1000)
    assert not await store.finish(KEY, ANNE, b"late", 1000)
    assert (await store.claim(KEY, ANNE, 60)).result == b"second"


@pytest.mark.parametrize("is_purged", [False, True])
async def test_a_late_result_counts_if_nobody_took_over(every_store: Harness, is_purged: bool) -> None:
    store, advance = every_store
    await store.claim(KEY, ANNE, 60)
    advance(61)
    if is_purged:
        await store.purge()
    assert await store.finish(KEY, ANNE, b"late", 1000)
    assert (await store.claim(KEY, BERT, 60)).result == b"late"


@pytest.mark.lengthy
async def test_purging_deletes_only_what_has_expired(every_store: Harness) -> None:
    store, advance = every_store
    await store.claim(KEY, ANNE, 60)
    await store.finish(KEY, ANNE, b"1", 60)
    await store.claim(OTHER_KEY, ANNE, 1000)
    advance(61)
    assert await store.purge() in (0, 1)  # Redis has deleted it already
    assert await store.purge() == 0
    assert (await store.claim(OTHER_KEY, BERT, 60)).state is ClaimState.IN_PROGRESS


@pytest.mark.lengthy
async def test_of_many_claims_at_once_one_succeeds(every_store: Harness) -> None:
    states: list[ClaimState] = []

    async def claim(number: int) -> None:
        states.append((await every_store.store.claim(KEY, f"{number:032}", 60)).state)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(claim, number)
    assert sorted(state.value for state in states) == ["claimed", *["in progress"] * 19]
