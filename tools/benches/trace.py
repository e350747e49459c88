"""Measures what `kshare trace` between a share consumer and the broker costs: reads alternately with and without it.

The proxy writes every exchange to a file. Its own CPU time isn't measured. A program that only forwards shows how much
of the cost is due to the second connection alone.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tools.benches import programs
from tools.benches.broker import RELEASE, at, broker, detour_port, filled_topic
from tools.benches.child import children
from tools.benches.readers import CPU, FIRST, RATE, Reader, apache, ours
from tools.benches.study import Contest, Figure, Study, Wishes, progress
from tools.kafka.listeners import HOST, Listener
from tools.tracing import tracing

RECORDS = 2_000_000
WARM_UPS = 6
ROUNDS = 5
PARTITIONS = 4
_START_DEADLINE_S, _DEADLINE_S = 30.0, 300.0
_READERS = {
    "kshare batches": ours("by_kshare.read", way="batches"),
    "kshare records": ours("by_kshare.read", way="records"),
    "confluent-kafka": ours("by_confluent.read", way="implicit"),
    "Java": apache(),
}


def study(wishes: Wishes) -> Study:
    records = wishes.records or RECORDS
    trials = {}
    for name, reader in _READERS.items():
        trials[name] = partial(_direct, reader, records)
        trials[f"{name}, traced"] = partial(_traced, reader, records)
        trials[f"{name}, forwarded"] = partial(_forwarded, reader, records)
    return Study(
        "trace",
        [
            f"Kafka {RELEASE}; {records:,} records of 100 bytes in {PARTITIONS} partitions, with defaults",
            "traced: through `kshare trace`, which writes a line for each exchange to a file",
            "forwarded: through a Python program with two threads per connection that only receive and send",
        ],
        (
            Figure(RATE, "a second", more_is_better=True),
            Figure(CPU, "microseconds a record, of the consumer", form=".3f"),
            Figure(FIRST, "seconds after the consumer was created", form=".2f"),
        ),
        trials,
        [Contest(RATE, f"{name}, {how}", name) for name in _READERS for how in ("traced", "forwarded")],
    )


def _direct(reader: Reader, records: int) -> Mapping[str, float]:
    _warm_up(records)
    return _read(reader, broker().bootstrap, records)


def _traced(reader: Reader, records: int) -> Mapping[str, float]:
    _warm_up(records)
    with (
        tempfile.NamedTemporaryFile() as log_file,
        tracing(broker().bootstrap, Path(log_file.name)) as address,
    ):
        return _read(reader, address, records)


def _forwarded(reader: Reader, records: int) -> Mapping[str, float]:
    _warm_up(records)
    _, door = broker().nodes[0].address(Listener.DETOURED)
    forwarding = programs.python("forwarder.forward", listen=detour_port(), to=door)
    with children([forwarding]) as ((forwarder,), _):
        forwarder.hear(_START_DEADLINE_S)
        return _read(reader, f"{HOST}:{detour_port()}", records)


def _read(reader: Reader, address: str, records: int) -> Mapping[str, float]:
    where = {**at(filled_topic(PARTITIONS, records)), "bootstrap": address}
    return reader.read(records, _DEADLINE_S, **where, max_records=None)


@functools.cache
def _warm_up(records: int) -> None:
    for number in range(WARM_UPS):
        progress(f"trace: warming up the broker, {number} of {WARM_UPS}")
        _read(_READERS["kshare batches"], broker().bootstrap, records)
