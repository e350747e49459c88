"""Idempotent functions in plain loops over a consumer, on the embedded broker."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.to_thread
import pytest

import kshare.sync
from kshare import ShareConsumer
from kshare.idempotency import MemoryStore, idempotent
from kshare.testing import Broker

VALUES = [b"a", b"b", b"c"]


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders")
    kshare_broker.set_group_config("orders", {"share.auto.offset.reset": "earliest"})
    kshare_broker.produce("orders", VALUES)
    return kshare_broker


@pytest.mark.anyio
@pytest.mark.parametrize("is_plain", [False, True], ids=["async", "plain"])
async def test_redelivered_records_return_the_stored_result(broker: Broker, is_plain: bool) -> None:
    effects: list[bytes] = []
    results: list[str] = []

    @idempotent(MemoryStore())
    async def charge(record: Any) -> str:
        effects.append(record.value)
        return f"charged {record.value.decode()}"

    @idempotent(MemoryStore())
    def plain(record: Any) -> str:
        effects.append(record.value)
        return f"charged {record.value.decode()}"

    async with ShareConsumer(broker.bootstrap, group="orders", topics=["orders"]) as consumer:
        async for record in consumer:
            results.append(
                await anyio.to_thread.run_sync(plain, record) if is_plain else await charge(record)
            )
            if record.redelivered:
                record.accept()
            else:
                record.release()
            if len(results) == 2 * len(VALUES):
                break
    assert sorted(effects) == VALUES
    assert sorted(results) == sorted(2 * [f"charged {value.decode()}" for value in VALUES])


def test_redelivered_records_in_blocking_code(broker: Broker) -> None:
    effects: list[bytes] = []
    results: list[str] = []

    @idempotent(MemoryStore())
    def charge(record: Any) -> str:
        effects.append(record.value)
        return f"charged {record.value.decode()}"

    with kshare.sync.ShareConsumer(broker.bootstrap, group="orders", topics=["orders"]) as consumer:
        for record in consumer:
            results.append(charge(record))
            if record.redelivered:
                record.accept()
            else:
                record.release()
            if len(results) == 2 * len(VALUES):
                break
    assert sorted(effects) == VALUES
    assert sorted(results) == sorted(2 * [f"charged {value.decode()}" for value in VALUES])
