"""A living system to look at, for `kshare web --demo`: an embedded broker with groups in different states.

group     | what it shows
----------+---------------------------------------------------------------------------------------------
packers   | three busy members, which release some records and reject others: dead letters
couriers  | a member that holds one record and settles all others, until the in-flight window is full
invoices  | no members, and a growing lag
insurers  | a worker with a slow handler: a few records take a minute, and keep in-flight windows full
trackers  | a fast handler of the same worker
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from random import Random

import anyio
from anyio.from_thread import start_blocking_portal

from kshare.client.consumer import ShareConsumer
from kshare.client.record import ShareRecord
from kshare.errors import AcknowledgeError
from kshare.testing import Broker
from kshare.worker import Worker

PACKERS, COURIERS, INVOICES = "packers", "couriers", "invoices"
INSURERS, TRACKERS = "insurers", "trackers"
ORDERS, PARCELS, DEAD_LETTERS = "orders", "parcels", "dlq.orders"
WORKER_TOPIC, WORKER_HOST = "kshare-workers", "127.0.0.1"
_WINDOW = 100
_PARTITIONS = 3
_ORDERS_PER_S, _PARCELS_PER_S = 12, 20
_RELEASED, _REJECTED = 0.12, 0.03
_SLOW = 0.01
_CITIES = ("Lyon", "Turin", "Graz", "Bergen", "Porto")


class Demo:
    """`with Demo() as demo: ... demo.bootstrap ...`"""

    def __init__(self) -> None:
        self._broker = Broker(topics={ORDERS: _PARTITIONS, PARCELS: 1})
        self._portal: AbstractContextManager[object] | None = None
        self._stop: Callable[[], object] | None = None

    @property
    def bootstrap(self) -> str:
        return self._broker.bootstrap

    def __enter__(self) -> Demo:
        self._broker.start()
        _configure(self._broker)
        started = start_blocking_portal("asyncio", name="kshare demo")
        self._stop = started.__enter__().start_task_soon(self._play).cancel
        self._portal = started
        return self

    def __exit__(self, *_: object) -> None:
        if self._stop is not None and self._portal is not None:
            self._stop()
            self._portal.__exit__(None, None, None)
        self._broker.stop()

    async def _play(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._produce)
            for name in ("anna", "ben", "carl"):
                tasks.start_soon(self._pack, name)
            tasks.start_soon(self._carry)
            tasks.start_soon(self._leave_early)
            tasks.start_soon(self._work)

    async def _produce(self) -> None:
        random, number = Random(1), 0
        while True:
            orders = [_order(number + each, random) for each in range(_ORDERS_PER_S // 2)]
            number += len(orders)
            self._broker.produce(ORDERS, orders, partition=random.randrange(_PARTITIONS), key=b"order")
            self._broker.produce(PARCELS, [b"parcel"] * (_PARCELS_PER_S // 2))
            await anyio.sleep(0.5)

    async def _pack(self, name: str) -> None:
        random = Random(name)
        async with self._consumer(PACKERS, ORDERS, name) as consumer:
            async for record in consumer:
                await anyio.sleep(random.uniform(0.05, 0.3))
                with suppress(AcknowledgeError):  # its lock was lost meanwhile
                    _settle(record, random.random())

    async def _leave_early(self) -> None:
        async with self._consumer(INVOICES, ORDERS, "emil") as consumer:
            async for record in consumer:
                record.accept()
                break

    async def _carry(self) -> None:
        async with self._consumer(COURIERS, PARCELS, "dora") as consumer:
            held: ShareRecord | None = None
            async for record in consumer:
                if held is None:
                    held = record
                    continue
                record.accept()

    async def _work(self) -> None:
        worker = Worker(
            self._broker.bootstrap, http=f"{WORKER_HOST}:0", announce=WORKER_TOPIC, client_id="frieda"
        )
        random = Random(2)

        @worker.handler(ORDERS, group=INSURERS, concurrency=8, time_limit=120)
        async def insure(order: bytes) -> None:
            is_slow = random.random() < _SLOW
            await anyio.sleep(random.uniform(20, 60) if is_slow else random.uniform(0.1, 0.6))

        @worker.handler(PARCELS, group=TRACKERS, concurrency=4)
        async def track(parcel: bytes) -> None:
            await anyio.sleep(0.02)

        await worker.serve()

    def _consumer(self, group: str, topic: str, name: str) -> ShareConsumer[ShareRecord]:
        return ShareConsumer(
            self._broker.bootstrap,
            group=group,
            topics=[topic],
            acknowledgement="explicit",
            acquire="records",
            max_records=10,
            max_lease_seconds=86_400,
            client_id=name,
        )


def _configure(broker: Broker) -> None:
    broker.create_topic(DEAD_LETTERS, settings={"errors.deadletterqueue.group.enable": "true"})
    earliest = {"share.auto.offset.reset": "earliest"}
    broker.set_group_config(
        PACKERS,
        {
            **earliest,
            "errors.deadletterqueue.topic.name": DEAD_LETTERS,
            "errors.deadletterqueue.copy.record.enable": "true",
        },
    )
    broker.set_group_config(COURIERS, {**earliest, "share.partition.max.record.locks": str(_WINDOW)})
    broker.set_group_config(INSURERS, {**earliest, "share.partition.max.record.locks": str(_WINDOW)})
    for group in (INVOICES, TRACKERS):
        broker.set_group_config(group, earliest)


def _order(number: int, random: Random) -> bytes:
    return json.dumps(
        {"order": number, "city": random.choice(_CITIES), "parcels": random.randint(1, 4)}
    ).encode()


def _settle(record: ShareRecord, chance: float) -> None:
    if chance < _REJECTED:
        record.reject()
    elif chance < _REJECTED + _RELEASED:
        record.release()
    else:
        record.accept()
