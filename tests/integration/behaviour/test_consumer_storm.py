"""Sync and async consumers of one group, which are stopped, paused, resubscribed, restarted and killed.

Meanwhile responses are corrupt for a while, again and again. A checker knows every record that was written, seen and
accepted. The report is docs/reports/consumer-storm.md.
"""

from __future__ import annotations

import logging
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from kshare import sync
from kshare.engine.events import Settled
from kshare.engine.lease_book import LeaseBook
from kshare.protocol.messages.share_fetch_response import PartitionData
from kshare.state.acks import PartitionAcks
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import WorkQueue, in_thread
from tests.integration.reporting import say, write_section

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.long]

LASTS_S = 25.0
CALM_S = 30.0
QUIET_S = 2.0
CORRUPT_S = 0.3
SEED = 35
CHILD = """
import sys
from kshare import sync
with sync.ShareConsumer(sys.argv[1], group=sys.argv[2], topics=sys.argv[3], acknowledgement="explicit") as source:
    for record in source:
        print(record.offset, flush=True)
        record.accept()
"""
ARCHIVED = re.compile(r"\(offsets? (\d+)(?: to (\d+))?\): given back unseen at the delivery count limit")


@dataclass
class Fates:
    """Of all records, by offset."""

    written: int = 0
    seen: set[int] = field(default_factory=set)
    accepted: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    """Whether these were accepted: no response, or their consumer was killed."""
    accepted_unseen: set[int] = field(default_factory=set)
    deeds: Counter[str] = field(default_factory=Counter)

    def on_settled(self, settled: Settled) -> None:
        for first, last, kind in settled.ranges():
            if kind == "accept":
                offsets = set(range(first, last + 1))
                self.accepted_unseen |= offsets - self.seen
                if settled.is_open:
                    self.unknown |= offsets
                elif settled.error is None:
                    self.accepted |= offsets

    @property
    def unseen(self) -> set[int]:
        """Of those that don't come any more."""
        return set(range(self.written)) - self.seen

    @property
    def lost(self) -> set[int]:
        """Seen, and neither accepted nor redelivered."""
        return self.seen - self.accepted - self.unknown


class Storm:
    def __init__(self, queue: WorkQueue, seed: int) -> None:
        self.queue, self.seed = queue, seed
        self.fates = Fates()
        self.over = threading.Event()
        self.is_corrupt = False

    def options(self, fates: Fates, chance: random.Random) -> dict[str, Any]:
        return {
            "acknowledgement": chance.choice(["implicit", "explicit"]),
            "acquire": chance.choice(["auto", "records", "batches"]),
            "max_records": chance.choice([5, 100, 1000]),
            "on_settled": fates.on_settled,
        }

    def meddle(self, source: Any, chance: random.Random) -> bool:
        """Do one thing to a consumer between two batches. False: nothing more comes from it."""
        deed = chance.choice([""] * 6 + ["pause", "maximum", "resubscribe", "stop", "restart"])
        if deed:
            self.fates.deeds[deed] += 1
        if deed == "pause":
            source.pause()
            time.sleep(0.05)
            source.resume()
        elif deed == "maximum":
            source.set_max_records(chance.choice([1, 50, 2000]))
        elif deed == "resubscribe":
            source.subscribe(["elsewhere"])
            source.subscribe([self.queue.topic])
        elif deed == "stop":
            source.stop_acquiring()
            source.set_max_records(500)
        return deed not in ("stop", "restart")

    async def consume(self) -> None:
        chance = random.Random(self.seed)
        while not self.over.is_set():
            async with self.queue.consumer(**self.options(self.fates, chance)) as source:
                with anyio.move_on_after(5.0):
                    async for batch in source.batches():
                        self.take(batch, chance)
                        if not self.meddle(source, chance):
                            break

    def consume_in_thread(self, number: int) -> None:
        chance = random.Random(self.seed + number)
        while not self.over.is_set():
            options = self.options(self.fates, chance)
            queue = self.queue
            with sync.ShareConsumer(
                queue.broker.bootstrap, group=queue.group, topics=queue.topic, **options
            ) as source:
                until = time.monotonic() + 5.0
                while time.monotonic() < until:
                    batch = source.next_batch(timeout=0.5)
                    if batch is not None:
                        self.take(batch, chance)
                        if not self.meddle(source, chance):
                            break

    def take(self, batch: Any, chance: random.Random) -> None:
        """Accept what was seen; a filter accepts every third record alone, and the rest by batch."""
        for record in batch:
            self.fates.seen.add(record.offset)
            if chance.random() < 0.3:
                record.accept()
        batch.accept()

    def kill_one(self) -> None:
        queue = self.queue
        words = [sys.executable, "-c", CHILD, queue.broker.bootstrap, queue.group, queue.topic]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
            time.sleep(6.0)
            child.kill()
            assert child.stdout is not None
            seen = {int(line) for line in child.stdout.read().split("\n")[:-1]}
        self.fates.seen |= seen
        self.fates.unknown |= seen
        self.fates.deeds["kill"] += 1

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.consume)
            for number in (1, 2):
                tasks.start_soon(in_thread, self.consume_in_thread, number)
            until = time.monotonic() + LASTS_S
            turn = 0
            while time.monotonic() < until:
                turn += 1
                await self.queue.produce(100)
                self.fates.written += 100
                if turn % 4 == 0:
                    self.is_corrupt = True
                    await anyio.sleep(CORRUPT_S)
                    self.is_corrupt = False
                    self.fates.deeds["corrupt interval"] += 1
                if turn % 8 == 1:
                    await in_thread(self.kill_one)
                await anyio.sleep(0.4)
            self.over.set()

    async def calm(self) -> None:
        """Read on until nothing comes and nothing is missing, or for `CALM_S`."""
        fates = self.fates
        async with self.queue.consumer(on_settled=fates.on_settled) as source:
            with anyio.move_on_after(CALM_S):
                while True:
                    with anyio.move_on_after(QUIET_S):
                        self.take(await source.next_batch(), random.Random(0))
                        continue
                    await source.commit()
                    if not fates.unseen and not fates.lost:
                        break


@pytest.mark.timeout(600)
@pytest.mark.release("4.4.0", "embedded")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_nothing_is_lost_or_settled_unseen(
    fresh_queue: FreshQueue,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    storm = Storm(fresh_queue(), SEED)
    acquire = LeaseBook.acquire

    def acquire_corrupt(
        book: LeaseBook, topic: str, acks: PartitionAcks, data: PartitionData, lock_s: float, sent_at: float
    ) -> None:
        if storm.is_corrupt and data.records:
            records = bytearray(data.records)
            records[-1] ^= 1
            data.records = bytes(records)
            storm.fates.deeds["corrupt response"] += 1
        acquire(book, topic, acks, data, lock_s, sent_at)

    monkeypatch.setattr(LeaseBook, "acquire", acquire_corrupt)
    with caplog.at_level(logging.WARNING, "kshare.client"):
        await storm.run()
        await storm.calm()
    fates = storm.fates
    named = {
        offset
        for line in caplog.messages
        for first, last in ARCHIVED.findall(line)
        for offset in range(int(first), int(last or first) + 1)
    }
    rows = {
        "written": fates.written,
        "seen": len(fates.seen),
        "lost": len(fates.lost),
        "accepted unseen": len(fates.accepted_unseen),
        "archived unseen": len(fates.unseen - fates.accepted_unseen - named),
        "archived unseen, and named in the log": len(fates.unseen & named),
        "accepted, as confirmed": len(fates.accepted),
        "accepted or not, as no answer came or the consumer was killed": len(fates.unknown - fates.accepted),
    } | dict(sorted(fates.deeds.items()))
    report = "| | |\n|---|---|\n" + "\n".join(f"| {name} | {count:,} |" for name, count in rows.items())
    say(capsys, report)
    release = storm.queue.broker.release
    assert not fates.lost
    assert not fates.accepted_unseen
    assert fates.unseen <= named
    write_section(
        Path("consumer-storm.md"),
        "A storm of sync and async consumers of one group",
        f"Kafka {release}",
        report,
    )
