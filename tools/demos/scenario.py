"""The demo's scenario: orders are produced, four consumers process them, one loses its connection, some are poison.

Decides the processing times and outcomes. `board` draws it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import anyio

from kshare import AcknowledgeError, ShareConsumer, ShareRecord
from kshare.broker.shares.delivery import RecordState
from kshare.testing import Broker

TOPIC, DEAD_LETTERS, GROUP = "orders", "dlq.orders", "packers"
PARTITIONS, PER_PARTITION = 3, 64
POISON = {(0, 20), (2, 41)}
MALFORMED = {(1, 12), (1, 50)}
NAMES = ("anna", "ben", "carl", "dora")
_PACE_S = {"anna": 0.012, "ben": 0.03, "carl": 0.02, "dora": 0.016}
_DELIVERIES = 3
_CLUMSY = 0.04
"""The probability that a good order is released."""
_CRASH_AFTER_S = 1.2
_LONGEST_S = 30.0

UNSEEN, WAITING, DONE, DEAD = "unseen", "waiting", "done", "dead"


@dataclass(slots=True)
class Worker:
    """What one consumer has done so far."""

    name: str
    accepted: int = 0
    released: int = 0
    rejected: int = 0
    crashes: int = 0


@dataclass(slots=True)
class Cell:
    """One record as the broker sees it: one of the states above, or the name of the consumer that holds it."""

    state: str = UNSEEN
    deliveries: int = 0


@dataclass(slots=True)
class Scene:
    workers: dict[str, Worker] = field(default_factory=lambda: {name: Worker(name) for name in NAMES})
    cells: list[list[Cell]] = field(
        default_factory=lambda: [[Cell() for _ in range(PER_PARTITION)] for _ in range(PARTITIONS)]
    )
    produced: int = 0
    dead_letters: list[str] = field(default_factory=list)
    over: anyio.Event = field(default_factory=anyio.Event)
    """Set when every order is settled."""

    @property
    def settled(self) -> int:
        return sum(cell.state in (DONE, DEAD) for row in self.cells for cell in row)


def make_broker() -> Broker:
    return Broker(topics={TOPIC: PARTITIONS})


def configure(broker: Broker) -> None:
    """Set Kafka's settings: quick assignment, three deliveries, dead letters with a copy of the record."""
    broker.create_topic(DEAD_LETTERS, settings={"errors.deadletterqueue.group.enable": "true"})
    broker.set_group_config(
        GROUP,
        {
            "share.auto.offset.reset": "earliest",
            "share.assignment.interval.ms": "0",
            "share.delivery.count.limit": str(_DELIVERIES),
            "errors.deadletterqueue.topic.name": DEAD_LETTERS,
            "errors.deadletterqueue.copy.record.enable": "true",
        },
    )


async def play(broker: Broker, scene: Scene) -> None:
    """Run the scenario until every order is settled."""
    with anyio.fail_after(_LONGEST_S):
        async with anyio.create_task_group() as tasks:
            for worker in scene.workers.values():
                tasks.start_soon(_work, broker, worker)
            tasks.start_soon(_produce, broker, scene)
            tasks.start_soon(_crash, broker, scene.workers["carl"])
            await scene.over.wait()
            tasks.cancel_scope.cancel()


async def _produce(broker: Broker, scene: Scene) -> None:
    for first in range(0, PER_PARTITION, 8):
        for partition in range(PARTITIONS):
            offsets = range(first, first + 8)
            broker.produce(TOPIC, [_order(partition, offset) for offset in offsets], partition=partition)
            scene.produced += len(offsets)
        await anyio.sleep(0.1)


def _order(partition: int, offset: int) -> bytes:
    if (partition, offset) in POISON:
        return b"an order that nobody can pack"
    return b"(illegible)" if (partition, offset) in MALFORMED else b"order %d of %d" % (offset, partition)


async def _work(broker: Broker, worker: Worker) -> None:
    random = Random(worker.name)
    async with ShareConsumer(
        broker.bootstrap,
        group=GROUP,
        topics=[TOPIC],
        acknowledgement="explicit",
        acquire="records",
        max_records=8,
        client_id=worker.name,
    ) as consumer:
        async for record in consumer:
            await anyio.sleep(_PACE_S[worker.name] * random.uniform(0.5, 1.5))
            with suppress(AcknowledgeError):  # its lock was lost meanwhile
                _settle(record, worker, random)


def _settle(record: ShareRecord, worker: Worker, random: Random) -> None:
    if record.value == b"(illegible)":
        record.reject()
        worker.rejected += 1
    elif record.value == _order(*min(POISON)) or random.random() < _CLUMSY:
        record.release()
        worker.released += 1
    else:
        record.accept()
        worker.accepted += 1


async def _crash(broker: Broker, worker: Worker) -> None:
    """Break a consumer's connection. The broker redelivers its records to the others, and the consumer reconnects."""
    await anyio.sleep(_CRASH_AFTER_S)
    broker.hang_up(worker.name)
    worker.crashes += 1


def look(broker: Broker, scene: Scene) -> None:
    """Update the scene with the broker's state."""
    broker.call(lambda: _update_scene(broker, scene))
    if scene.settled == PARTITIONS * PER_PARTITION:
        scene.over.set()
    scene.dead_letters = [
        (record.value or b"").decode() or f"order {dict(record.headers)}"
        for record in broker.records(DEAD_LETTERS)
    ]


def _update_scene(broker: Broker, scene: Scene) -> None:
    state = broker.state
    if not state.share_groups.has(GROUP):
        return
    names = {member.id: member.client_id for member in state.share_groups.find(GROUP).members.values()}
    for share_partition in state.shares.loaded():
        row = scene.cells[share_partition.partition.index]
        window = share_partition.shared.window
        for offset in range(min(window.start, len(row))):
            is_dead = (share_partition.partition.index, offset) in POISON | MALFORMED
            row[offset].state = DEAD if is_dead else DONE
        for first, last, delivery in window.runs():
            for cell in row[max(first, window.start) : last + 1]:
                cell.deliveries = delivery.count
                cell.state = {
                    RecordState.AVAILABLE: WAITING if delivery.count else UNSEEN,
                    RecordState.ACQUIRED: names.get(delivery.member, "?"),
                    RecordState.ACKNOWLEDGED: DONE,
                    RecordState.ARCHIVED: DEAD,
                }[delivery.state]
