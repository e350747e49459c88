"""Measures the embedded broker: its start-up time and its throughput.

The program is measured from its call to the line with its address, the fixture from `with` to the end of an empty
block. Records are written by confluent-kafka and read by kshare, each with its defaults, on a broker in a separate
process.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import anyio

from kshare import AdminClient, ShareConsumer
from kshare.testing import Broker
from tools.benches.study import Figure, Study, Wishes

RECORDS = 400_000
PARTITIONS = 4
ROUNDS = 5
_VALUE = b"x" * 100
_FIXTURES = 20
_DEADLINE_S = 120.0
_START, _WRITTEN, _READ = "ready after", "written", "read"
_PROGRAM = [sys.executable, "-m", "kshare.cli", "broker", "--port", "0", "--topic", f"t:{PARTITIONS}"]


def study(wishes: Wishes) -> Study:
    records = wishes.records or RECORDS
    return Study(
        "embedded",
        [f"{records:,} records of {len(_VALUE)} bytes in {PARTITIONS} partitions; no data folder"],
        [
            Figure(_START, "milliseconds", form=",.1f"),
            Figure(_WRITTEN, "records a second", more_is_better=True),
            Figure(_READ, "records a second", more_is_better=True),
        ],
        {
            "kshare broker": _start_program,
            "fixture": _start_fixture,
            "kshare batches": functools.partial(_run_records, records, False),
            "kshare records": functools.partial(_run_records, records, True),
        },
        [],
    )


def _start_program() -> Mapping[str, float]:
    began = time.perf_counter()
    with program():
        return {_START: 1000 * (time.perf_counter() - began)}


def _start_fixture() -> Mapping[str, float]:
    with Broker():
        pass  # the first one loads the modules, which tests do only once
    began = time.perf_counter()
    for _ in range(_FIXTURES):
        with Broker():
            pass
    return {_START: 1000 * (time.perf_counter() - began) / _FIXTURES}


def _run_records(records: int, one_by_one: bool) -> Mapping[str, float]:
    with program() as bootstrap:
        began = time.perf_counter()
        _write(bootstrap, records)
        written = records / (time.perf_counter() - began)
        return {_WRITTEN: written, _READ: anyio.run(_read, bootstrap, records, one_by_one)}


@contextmanager
def program() -> Iterator[str]:
    """Run a broker, and yield its address."""
    settings = ["--setting", "group.share.assignment.interval.ms=0"]
    with subprocess.Popen([*_PROGRAM, *settings], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.kill()


def _write(bootstrap: str, records: int) -> None:
    import confluent_kafka  # only installed with the extra `bench`, which tests don't need

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 2_000_000}
    )
    for number in range(records):
        producer.produce("t", _VALUE, partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.poll(0)
    unwritten = producer.flush(_DEADLINE_S)
    if unwritten:
        raise TimeoutError(f"{unwritten} records weren't written in time")


async def _read(bootstrap: str, records: int, one_by_one: bool) -> float:
    """Read and accept all records. Returns records per second, measured from the first to the last one."""
    await _read_from_the_beginning(bootstrap)
    count, began = 0, 0.0
    with anyio.fail_after(_DEADLINE_S):
        async with ShareConsumer(bootstrap, group="g", topics=["t"]) as consumer:
            if one_by_one:
                async for _ in consumer:
                    began = began or time.perf_counter()
                    count += 1
                    if count == records:
                        break
            else:
                async for batch in consumer.batches():
                    began = began or time.perf_counter()
                    count += len(batch)
                    if count >= records:
                        break
            return count / (time.perf_counter() - began)


async def _read_from_the_beginning(bootstrap: str) -> None:
    async with AdminClient(bootstrap) as admin:
        await admin.alter_group_config("g", {"share.auto.offset.reset": "earliest"})
