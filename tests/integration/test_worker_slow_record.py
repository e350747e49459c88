"""One record that takes ten minutes doesn't slow the others down, though it would pin their in-flight window."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.integration.reporting import say, write_section
from tests.integration.slow_record import (
    CONCURRENCY,
    PRODUCED_A_SECOND,
    WORK_S,
    Lane,
    consume_plainly,
    count_slices,
    produce_to,
    worker_for,
)
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio]

REPORT = Path("worker-slow-record.md")
LATE_S = 30.0
"""How much later than its delay the record may be processed."""
SLICES = 10


@pytest.mark.long
@pytest.mark.release("4.3.1")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("seconds", [60, 600])
async def test_the_others_go_on(seconds: int, kafka: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    reference, backing_off, running, plain = lanes = [
        Lane("worker, no slow record", f"slow-{seconds}-none", seconds),
        Lane(f"worker, one record backs off for {seconds} s", f"slow-{seconds}-back-off", seconds),
        Lane(f"worker, one handler runs for {seconds} s", f"slow-{seconds}-running", seconds),
        Lane(
            f"plain consumer, one record held and renewed for {seconds} s", f"slow-{seconds}-plain", seconds
        ),
    ]
    for lane in lanes:
        await anyio.to_thread.run_sync(kafka.create_topic, lane.topic)
        await anyio.to_thread.run_sync(
            kafka.set_group_config, lane.group, {"share.auto.offset.reset": "earliest"}
        )
    async with anyio.create_task_group() as tasks:
        for lane, slow in (
            (reference, nothing_slow),
            (backing_off, backing_off.back_off),
            (running, running.take_long),
        ):
            await tasks.start(worker_for(lane, kafka.bootstrap, slow).serve)
        tasks.start_soon(consume_plainly, plain, kafka.bootstrap)
        tasks.start_soon(produce_to, lanes, kafka.bootstrap)
        with anyio.fail_after(60):
            while any(lane.slow_began is None for lane in lanes[1:]):
                await anyio.sleep(0.05)
        await count_slices(lanes, seconds, SLICES)
        with anyio.move_on_after(LATE_S):
            while backing_off.slow_ended is None or running.slow_ended is None:
                await anyio.sleep(0.05)
        tasks.cancel_scope.cancel()
    text = report(lanes)
    say(capsys, text)
    if seconds >= 600:
        write_section(REPORT, "One slow record in a partition with default limits", "Kafka 4.3.1", text)
    assert backing_off.slow_began is not None
    assert backing_off.slow_ended is not None, "it wasn't retried"
    assert running.slow_ended is not None, "its run was lost when it was moved"
    assert seconds <= backing_off.slow_ended - backing_off.slow_began < seconds + LATE_S
    for lane in (backing_off, running):
        assert sum(lane.slices) >= 0.9 * sum(reference.slices), lane.name
    assert sum(plain.slices) < 0.9 * sum(reference.slices), "the window isn't limited, so this shows nothing"


async def nothing_slow() -> None:
    """The reference has the same record, which isn't slow there."""


def report(lanes: list[Lane]) -> str:
    reference = sum(lanes[0].slices)
    slice_s = lanes[0].seconds / SLICES
    lines = [
        f"{PRODUCED_A_SECOND} records a second are produced to each topic; {CONCURRENCY} at once are processed, each "
        f"for {WORK_S:g} s. Records a second, in each tenth of the time:",
        "",
        f"| | {' | '.join(f'{number * slice_s:g} s' for number in range(1, SLICES + 1))} | all | of the first |",
        f"|---|{'---|' * (SLICES + 2)}",
    ]
    for lane in lanes:
        rates = " | ".join(f"{count / slice_s:.0f}" for count in lane.slices)
        done = sum(lane.slices)
        lines.append(f"| {lane.name} | {rates} | {done:,} | {done / reference:.1%} |")
    lines += [
        "",
        *(
            f"{lane.name}: its record was done after {lane.slow_ended - lane.slow_began:.1f} s."
            for lane in lanes
            if lane.slow_began is not None and lane.slow_ended is not None
        ),
    ]
    return "\n".join(lines)
