"""The Redis store: its keys and times, and a server that is away."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from redis import Redis

from kshare.errors import StoreFailed
from kshare.idempotency.redis import RedisStore
from kshare.idempotency.store import CLAIMED
from tools import redis_server
from tools.kafka.ports import free_ports

pytestmark = pytest.mark.anyio

KEY, ANNE, BERT = "0" * 64, "a" * 32, "b" * 32


@pytest.mark.redis
async def test_keys_have_a_prefix_and_expire(redis_url: str) -> None:
    store = RedisStore(redis_url, prefix="shop:")
    client = Redis.from_url(redis_url)
    client.flushall()
    await store.claim(KEY, ANNE, 60)
    assert client.keys() == [b"shop:" + KEY.encode()]
    assert 0 < client.pttl("shop:" + KEY) <= 60_000
    await store.finish(KEY, ANNE, b"1", 3600)
    assert 60_000 < client.pttl("shop:" + KEY) <= 3_600_000
    store.close()
    client.close()


@pytest.mark.redis
async def test_stores_with_different_prefixes_are_separate(redis_url: str) -> None:
    one, other = RedisStore(redis_url, prefix="one:"), RedisStore(redis_url, prefix="other:")
    assert await one.claim(KEY, ANNE, 60) == CLAIMED
    assert await other.claim(KEY, BERT, 60) == CLAIMED
    one.close()
    other.close()


@pytest.mark.redis
async def test_a_server_that_dies_is_explained(tmp_path: Path) -> None:
    process, url = redis_server.start(tmp_path)
    store = RedisStore(url)
    await until_it_responses(store)
    process.kill()
    with pytest.raises(StoreFailed, match=r"Redis failed \(ConnectionError\)"):
        await store.claim(KEY, ANNE, 60)
    store.close()


async def until_it_responses(store: RedisStore) -> None:
    with anyio.fail_after(60):
        while True:
            try:
                return await store.abandon(KEY, ANNE)
            except StoreFailed:
                await anyio.sleep(0.01)


async def test_a_server_that_cant_be_reached_is_explained_without_its_password() -> None:
    (port,) = free_ports(1)
    store = RedisStore(f"redis://anne:secret@127.0.0.1:{port}/0")
    with pytest.raises(StoreFailed, match=r"RedisStore: Redis failed \(ConnectionError\)") as caught:
        await store.claim(KEY, ANNE, 60)
    assert "secret" not in f"{caught.value} {caught.value.__cause__} {store!r}"
    store.close()


async def test_nothing_is_sent_by_calls_that_waited_long_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kshare.idempotency.redis._PATIENCE_S", -1.0)
    store = RedisStore("redis://127.0.0.1:1/0")
    with pytest.raises(StoreFailed, match=r"RedisStore: nothing was sent") as caught:
        await store.claim(KEY, ANNE, 60)
    assert not caught.value.is_open
    store.close()
