"""`kshare worker` against every broker: its check, and processes that are stopped while they work."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from kshare import sync
from tests.cli.worker.worker_programs import APP, WorkerProgram
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import WorkQueue

pytestmark = pytest.mark.kafka

_RECORDS = 300


def write_app(folder: Path, queue: WorkQueue) -> None:
    handler = f'''
@worker.handler("{queue.topic}", concurrency=5, time_limit=20)
async def ship(value: str):
    await anyio.sleep(0.05)
    say("shipped", value)
'''
    text = APP.replace('group="shippers"', f'group="{queue.group}", dead_letters="{queue.topic}-dead"')
    (folder / "shop.py").write_text(text + handler)


def test_check_of_a_worker_that_fits(fresh_queue: FreshQueue, tmp_path: Path) -> None:
    queue = fresh_queue(partitions=2)
    write_app(tmp_path, queue)
    arguments = ("check", "shop", "-b", queue.broker.bootstrap, "--workers", "2", "--json")
    with WorkerProgram(tmp_path, *arguments) as program:
        assert program.end() == 0, program.output
    found = {load["check"]: (load["level"], load["text"]) for load in json.loads(program.output)}
    assert {level for level, _ in found.values()} == {"ok"}, found
    assert found[f"topic {queue.topic}-dead"][1].endswith("doesn't exist yet: the worker will create it")
    assert found[f"topic {queue.topic}"] == ("ok", "2 partitions, and it may be read")


def test_check_finds_too_many_members_and_missing_topics(fresh_queue: FreshQueue, tmp_path: Path) -> None:
    queue = fresh_queue()
    missing = WorkQueue(queue.broker, f"{queue.topic}-missing", queue.group)
    write_app(tmp_path, missing)
    arguments = ("check", "shop", "-b", queue.broker.bootstrap, "--workers", "999", "--json")
    with WorkerProgram(tmp_path, *arguments) as program:
        assert program.end() == 1
    report = json.loads(program.output.partition("\nkshare: ")[0])
    found = {finding["check"] for finding in report if finding["level"] == "problem"}
    assert found == {f"topic {missing.topic}", f"group {queue.group}"}


def test_stopped_processes_redeliver_nothing(fresh_queue: FreshQueue, tmp_path: Path) -> None:
    queue = fresh_queue(partitions=2)
    write_app(tmp_path, queue)
    with sync.Producer(queue.broker.bootstrap) as producer:
        for number in range(_RECORDS):
            producer.send(queue.topic, b"%d" % number)
    with WorkerProgram(tmp_path, "shop", "-b", queue.broker.bootstrap, "--workers", "2") as program:
        program.until("shipped")
        assert program.end(signal.SIGTERM) == 0, program.output
    done = [int(number) for number in re.findall(r"shipped (\d+)", program.output)]
    assert len(done) < _RECORDS
    left: list[int] = []
    with sync.ShareConsumer(queue.broker.bootstrap, group=queue.group, topics=[queue.topic]) as consumer:
        for record in consumer:
            assert record.value is not None
            assert not record.redelivered, record
            left.append(int(record.value))
            if len(left) + len(done) == _RECORDS:
                break
    assert sorted([*done, *left]) == list(range(_RECORDS))
