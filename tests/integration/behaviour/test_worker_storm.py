"""A storm of bad records over three worker processes: every record ends as its policy says, and none is lost."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from kshare import AdminClient, Producer
from kshare.protocol.record import Record
from kshare.worker.settle.retry_group import retry_group
from tests.helpers.committed import records_in
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import in_thread
from tests.integration.reporting import say, write_section
from tests.integration.worker_storm.crew import Crew
from tests.integration.worker_storm.diary import read_diary
from tests.integration.worker_storm.fates import FULL, SHORT, Plan, is_ordered, key_of
from tests.integration.worker_storm.judging import Copy, Judgement, Witness
from tests.integration.worker_storm.places import Places
from tests.integration.worker_storm.program import TIERS

pytestmark = [pytest.mark.kafka, pytest.mark.anyio, pytest.mark.lengthy]

PROCESSES = 3
PARTITIONS = 6
BATCH_BYTES = 4_000
REPORT = Path("worker-storm.md")


@pytest.mark.release("embedded")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_short_storm(
    fresh_queue: FreshQueue, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await storm(fresh_queue, SHORT, tmp_path, capsys, lock_s=2.0, deadline_s=120)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_storm(fresh_queue: FreshQueue, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await storm(fresh_queue, FULL, tmp_path, capsys, lock_s=4.0, deadline_s=1500, report_to=REPORT)


async def storm(
    fresh_queue: FreshQueue,
    plan: Plan,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    lock_s: float,
    deadline_s: float,
    report_to: Path | None = None,
) -> None:
    """The report is kept even if something is wrong."""
    queue = fresh_queue(
        partitions=PARTITIONS,
        settings={
            "share.record.lock.duration.ms": str(round(lock_s * 1000)),
            "share.session.timeout.ms": "4000",
            "share.heartbeat.interval.ms": "1000",
        },
    )
    ordered = f"{queue.topic}-ordered"
    await in_thread(queue.broker.create_topic, ordered, PROCESSES)
    dead = f"{queue.topic}-dead"
    if queue.is_4_1:
        # It counts no delivery that ended with its process, so it would deliver these for ever.
        plan = replace(plan, kill=0)
    places = Places(queue.broker.bootstrap, queue.group, queue.topic, ordered, dead, lock_s, plan)
    crew = Crew(folder, "tests.integration.worker_storm.program", [places.as_json()])
    began = time.monotonic()
    try:
        crew.start(PROCESSES)
        await produce(places)
        await until_done(places, crew, deadline_s)
        took_s = time.monotonic() - began
        codes = await in_thread(crew.stop)
    finally:
        crew.kill()
    lag = await lag_of(places)
    letters = [
        Copy(
            number_of(record),
            record.timestamp / 1000,
            str(dict(record.headers)["__dlq.errors.message"] or b"", "utf-8"),
        )
        for record in await records_in(places.bootstrap, dead)
    ]
    retries = [
        Copy(number_of(record), record.timestamp / 1000)
        for topic in (places.plain, places.ordered)
        for tier in TIERS.tiers
        for record in await records_in(places.bootstrap, TIERS.topic(topic, tier))
    ]
    witnesses = [Witness([*read_diary(life.diary)], life.was_killed) for life in crew.lives]
    judgement = Judgement(plan.fates(), witnesses, retries, letters, lock_s, can_renew=not queue.is_4_1)
    report = f"{judgement.report()}\n\nTook {took_s:.0f} s. Lag at the end: {lag}. Exit codes: {codes}."
    say(capsys, report)
    if report_to is not None:
        embedded = queue.broker.release in ("4.1", "4.3", "4.4")
        name = "The embedded broker" if embedded else f"Kafka {queue.broker.release}"
        title = f"The worker in a storm: {plan.records:,} records, {PROCESSES} processes"
        write_section(report_to, title, name, report)
    assert [*judgement.problems()] == []
    assert (lag, codes) == (0, [0] * PROCESSES)


def number_of(record: Record) -> int:
    return int(record.value or b"")


async def produce(places: Places) -> None:
    # Kafka 4.1 delivers whole batches, however large, and their locks can't be renewed.
    async with Producer(places.bootstrap, batch_bytes=BATCH_BYTES) as producer:
        for number in range(places.plan.records):
            if is_ordered(number):
                await producer.enqueue(places.ordered, b"%d" % number, key_of(number))
            else:
                await producer.enqueue(places.plain, b"%d" % number, partition=number % PARTITIONS)


async def until_done(places: Places, crew: Crew, deadline_s: float) -> None:
    """Wait until both groups have settled everything, and replace processes that die meanwhile."""
    with anyio.move_on_after(deadline_s):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(replace_the_dead, crew)
            while await lag_of(places) != 0:
                await anyio.sleep(1.0)
            tasks.cancel_scope.cancel()


async def replace_the_dead(crew: Crew) -> None:
    while True:
        crew.replace_the_dead()
        await anyio.sleep(0.05)


async def lag_of(places: Places) -> int | None:
    """What is left, in both groups; None while it isn't known."""
    async with AdminClient(places.bootstrap) as admin:
        own = await admin.share_group_progress(places.group)
        copies = await admin.share_group_progress(retry_group(places.group))
    if not own or not copies:
        return None
    # A partition that the group hasn't read yet has no lag: all of it is left.
    return sum(row.end_offset or 0 if row.lag is None else row.lag for row in [*own, *copies])
