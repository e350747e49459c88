"""What it costs to hold 10,000 records for their next attempt: memory and CPU time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kshare.testing import Broker
from tests.integration.holding import WARMING
from tests.integration.reporting import say, write_section

RECORDS, PARTITIONS = 10_000, 16
SECONDS = 90.0
"""Three times as long as a lock, so that all records are renewed several times."""
MOST_MB, MOST_CPU = 50.0, 0.02
REPORT = Path("worker-holding.md")


@pytest.mark.long
@pytest.mark.timeout(300)
def test_holding_costs_little(kshare_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    broker = kshare_broker
    broker.create_topic("t", PARTITIONS)
    broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
    produce(broker, WARMING, b"")
    command = [sys.executable, "-m", "tests.integration.holding", broker.bootstrap, "g", "t"]
    with subprocess.Popen(
        [*command, str(RECORDS), str(SECONDS)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            produce(broker, RECORDS, b"." * 100)
            memory_mb, cpu, held = (float(number) for number in process.stdout.readline().split())
            assert process.wait(30) == 0
        finally:
            process.kill()
    report = (
        f"{RECORDS:,} records of 100 bytes in {PARTITIONS} partitions were held for their next attempt by one worker, "
        f"with default limits, for {SECONDS:g} s: {held:,.0f} were at the end.\n\n"
        f"Memory: {memory_mb:.1f} MB more than before. CPU: {cpu:.2%} of a core."
    )
    say(capsys, report)
    write_section(REPORT, "Holding 10,000 records", "The embedded broker", report)
    assert held == RECORDS
    assert memory_mb < MOST_MB
    assert cpu < MOST_CPU


def produce(broker: Broker, records: int, value: bytes) -> None:
    for partition in range(PARTITIONS):
        share = records // PARTITIONS + (partition < records % PARTITIONS)
        broker.produce("t", [value] * share, partition=partition)
