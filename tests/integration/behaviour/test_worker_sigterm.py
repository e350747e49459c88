"""SIGTERM to a worker process at full load: it finishes what it has in hand, and nothing is redelivered for it."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import anyio
import pytest

from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S, in_thread
from tests.integration.reporting import say, write_section
from tests.integration.worker_storm.crew import Crew
from tests.integration.worker_storm.diary import Entry, Event, read_diary
from tests.integration.worker_storm.loaded import DRAIN_S

pytestmark = [pytest.mark.kafka, pytest.mark.anyio, pytest.mark.lengthy]

REPORT = Path("worker-sigterm.md")


@pytest.mark.release("embedded")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_sigterm_under_load(
    fresh_queue: FreshQueue, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await terminate_repeatedly(fresh_queue, tmp_path, capsys, records=6_000, per_worker=2_000)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.release("4.1.2", "4.3.1", "4.4.0")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_repeated_sigterm_under_load(
    fresh_queue: FreshQueue, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = await terminate_repeatedly(fresh_queue, tmp_path, capsys, records=100_000, per_worker=10_000)
    write_section(REPORT, "SIGTERM to a worker at full load", *report)


async def terminate_repeatedly(
    fresh_queue: FreshQueue,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    records: int,
    per_worker: int,
) -> tuple[str, str]:
    """One worker after another, each terminated when it has processed so many. Returns the broker and the report."""
    queue = fresh_queue(partitions=4)
    await queue.produce(records)
    crew = Crew(
        folder,
        "tests.integration.worker_storm.loaded",
        [queue.broker.bootstrap, queue.group, queue.topic],
    )
    lines = ["| terminated after | and then processed | ended after | exit code |", "|---|---|---|---|"]
    worst_s = 0.0
    codes: list[int] = []
    try:
        while sum(successes(life.diary) for life in crew.lives) < records:
            crew.start(1)
            diary = crew.lives[-1].diary
            earlier = sum(successes(life.diary) for life in crew.lives[:-1])
            goal = min(per_worker, records - earlier)
            with anyio.fail_after(DEADLINE_S):
                while successes(diary) < goal:
                    await anyio.sleep(0.1)
            before = successes(diary)
            began = time.monotonic()
            codes += await in_thread(crew.stop)
            took_s = time.monotonic() - began
            worst_s = max(worst_s, took_s)
            lines.append(
                f"| {before:,} records | {successes(diary) - before} | {took_s:.2f} s | {codes[-1]} |"
            )
    finally:
        crew.kill()
    entries: list[Entry] = [entry for life in crew.lives for entry in read_diary(life.diary)]
    counted = [entry for entry in entries if entry.event is Event.COUNTED]
    runs = Counter(entry.number for entry in entries if entry.event is Event.BEGAN)
    deliveries = Counter(entry.deliveries for entry in entries if entry.event is Event.BEGAN)
    done = Counter(entry.number for entry in entries if entry.event is Event.SUCCEEDED)
    report = "\n".join(
        [
            *lines,
            "",
            f"{len(done):,} of {records:,} records processed. Handlers began {runs.total():,} times; delivery counts: "
            f"{dict(deliveries)}. Failed: {sum(entry.number for entry in counted)}, cancelled: "
            f"{sum(entry.attempt for entry in counted)}, released or lost: "
            f"{sum(entry.deliveries for entry in counted)}.",
        ]
    )
    say(capsys, report)
    assert codes == [0] * len(codes)
    assert worst_s < DRAIN_S
    assert len(done) == records
    assert runs == done == Counter(range(records))
    assert set(deliveries) == {1}
    assert [(entry.number, entry.attempt, entry.deliveries) for entry in counted] == [(0, 0, 0)] * len(codes)
    embedded = queue.broker.release in ("4.1", "4.3", "4.4")
    return ("The embedded broker" if embedded else f"Kafka {queue.broker.release}"), report


def successes(diary: Path) -> int:
    return diary.read_bytes().count(Event.SUCCEEDED.encode())
