"""A console that is killed in the middle of a redrive: no dead letter is lost, and another console finishes it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from kshare.admin.config import admin_settings
from kshare.admin.routing import Router
from kshare.dead_letters.letter_states import default_group, letter_states
from kshare.dead_letters.read import bounds
from kshare.net.pool import Pool
from kshare.protocol.messages import ProduceRequest
from kshare.testing import Broker
from tests.helpers.consoles import RunningConsole, eventually, submit

TOPIC, TARGET = "dlq.orders", "again"
COUNT = 3_000


@contextmanager
def own_process(bootstrap: str) -> Iterator[tuple[RunningConsole, subprocess.Popen[str]]]:
    words = ["web", "-b", bootstrap, "--listen", "127.0.0.1:0", "--allow-changes"]
    with subprocess.Popen(
        [sys.executable, "-m", "kshare", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield RunningConsole(process.stdout.readline().split()[-1].rstrip("/")), process
        finally:
            process.kill()


def redrive(console: RunningConsole) -> str:
    """The path of the job's page."""
    plan = f"/dead-letters/plan?topic={TOPIC}&do=redrive-all&to={TARGET}"
    form = {"action": "redrive", "topic": TOPIC, "letters": "", "to": TARGET}
    status, found, text = submit(console, plan, "/dead-letters/start", form)
    assert status == 303, text
    return found["location"]


def copied(broker: Broker) -> set[int]:
    return {int(bytes(record.value or b"")) for record in broker.records(TARGET)}


async def left(bootstrap: str) -> set[int]:
    """The offsets of dead letters that weren't redriven."""
    async with Pool(admin_settings(bootstrap, {})) as pool:
        router = Router(pool, 20)
        firsts, ends = await bounds(router, TOPIC)
        states = await letter_states(router, TOPIC, default_group(TOPIC), firsts, ends)
    return {
        offset
        for offset in range(COUNT)
        if offset >= states.starts.get(0, 0) and (0, offset) not in states.beyond
    }


@pytest.mark.lengthy
def test_no_dead_letter_is_lost(kshare_broker: Broker) -> None:
    kshare_broker.create_topic(TOPIC)
    kshare_broker.create_topic(TARGET)
    kshare_broker.produce(TOPIC, [str(number).encode() for number in range(COUNT)])
    with own_process(kshare_broker.bootstrap) as (console, process):
        unconfirmed = kshare_broker.faults.add(ProduceRequest, skip=5, times=None, mute=True)
        redrive(console)
        eventually(lambda: unconfirmed.hits, bool)
        process.kill()
        process.wait()
        unconfirmed.stop()
    done, still_open = copied(kshare_broker), anyio.run(left, kshare_broker.bootstrap)
    assert 0 < len(done) < COUNT, "it was killed in the middle"
    assert done | still_open == set(range(COUNT))
    with own_process(kshare_broker.bootstrap) as (console, _):
        job = redrive(console)
        text = eventually(lambda: console.request(job)[2], lambda text: "running" not in text)
        assert "not all dead letters arrived" not in text
    assert anyio.run(left, kshare_broker.bootstrap) == set()
    assert copied(kshare_broker) == set(range(COUNT))
