"""What it costs a share consumer to have `kshare trace` between it and the broker: read alternately with and without.

The proxy shows every exchange, into a file. Its own CPU is in no figure but its own.
"""

from __future__ import annotations

import functools
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tools.benches.broker import RELEASE, broker, fresh_group
from tools.benches.child import ROOT, children, next_line
from tools.benches.filling import filled_topic
from tools.benches.measure import progress
from tools.benches.readers import CPU, FIRST, RATE, Reader, apache, ours
from tools.benches.study import Contest, Figure, Study
from tools.benches.wishes import Wishes

RECORDS = 2_000_000
WARM_UPS = 3
ROUNDS = 5
PARTITIONS = 4
_DEADLINE_S = 300.0
_READERS = {
    "kshare batches": ours("kshare_read", way="batches"),
    "kshare records": ours("kshare_read", way="records"),
    "confluent-kafka": ours("confluent_read", way="implicit"),
    "Java": apache(),
}


def study(wishes: Wishes) -> Study:
    records = wishes.records or RECORDS
    trials = {}
    for name, reader in _READERS.items():
        trials[name] = partial(_direct, reader, records)
        trials[f"{name}, traced"] = partial(_traced, reader, records)
    return Study(
        "trace",
        [
            f"Kafka {RELEASE}; {records:,} records of 100 bytes in {PARTITIONS} partitions, nothing set by the user",
            "traced: through kshare trace, which writes a line for each exchange into a file",
        ],
        (
            Figure(RATE, "a second", more_is_better=True),
            Figure(CPU, "microseconds a record, of the consumer", form=".3f"),
            Figure(FIRST, "seconds after the consumer was made", form=".2f"),
        ),
        trials,
        [Contest(RATE, f"{name}, traced", name) for name in _READERS],
    )


def _direct(reader: Reader, records: int) -> Mapping[str, float]:
    _warm_up(records)
    return _read(reader, broker().bootstrap, records)


def _traced(reader: Reader, records: int) -> Mapping[str, float]:
    _warm_up(records)
    with _tracing() as address:
        return _read(reader, address, records)


@contextmanager
def _tracing() -> Iterator[str]:
    command = [sys.executable, "-m", "kshare.cli", "trace", "--listen", "127.0.0.1:0", "--bootstrap-server"]
    with tempfile.NamedTemporaryFile() as said:
        process = subprocess.Popen([*command, broker().bootstrap], stdout=said, cwd=ROOT)
        try:
            yield _address(Path(said.name), process)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(_DEADLINE_S)


def _address(said: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + _DEADLINE_S
    while "\n" not in (text := said.read_text()):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("kshare trace doesn't begin")
        time.sleep(0.05)
    return text.splitlines()[0].split()[-1]


def _read(reader: Reader, address: str, records: int) -> Mapping[str, float]:
    command = reader.program(
        bootstrap=address, group=fresh_group(), topic=_filled(records), records=records, max_records=None
    )
    said: list[str] = []
    deadline = time.monotonic() + _DEADLINE_S
    with children([command]) as ((child,), lines):
        while (text := next_line(lines, deadline).text) is not None:
            said.append(text)
        if not said:
            raise child.failure("said nothing")
        usage = child.end()
    return reader.figures(said, records, usage.ru_utime + usage.ru_stime)


@functools.cache
def _filled(records: int) -> str:
    return filled_topic(PARTITIONS, records)


@functools.cache
def _warm_up(records: int) -> None:
    for number in range(WARM_UPS):
        progress(f"trace: warming up the broker, {number} of {WARM_UPS}")
        _read(_READERS["kshare batches"], broker().bootstrap, records)
