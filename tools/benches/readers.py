"""Consumers to be measured: how each is started, and how its output is converted to figures."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from tools.benches import programs
from tools.benches.child import children, next_line
from tools.benches.programs import Command

RATE, CPU, FIRST = "records", "CPU", "first record"
_APACHE_TIME = "%Y-%m-%d %H:%M:%S:%f"


@dataclass(frozen=True)
class Reader:
    """A consumer. `program` takes bootstrap, group, topic, records and max_records (None: its own default).

    `figures` gets its output lines, the number of records, and the CPU time of the whole process in seconds.
    """

    program: Callable[..., Command]
    figures: Callable[[Sequence[str], int, float], Mapping[str, float]]

    def read(self, records: int, seconds: float, **where: object) -> Mapping[str, float]:
        """Read this many records. Raises ChildError after `seconds`."""
        output: list[str] = []
        deadline = time.monotonic() + seconds
        with children([self.program(records=records, **where)]) as ((child,), lines):
            while (text := next_line(lines, deadline).text) is not None:
                output.append(text)
            if not output:
                raise child.failure("printed nothing")
            usage = child.end()
        return self.figures(output, records, usage.ru_utime + usage.ru_stime)


def ours(name: str, **arguments: str) -> Reader:
    """A Python program of contenders/."""
    return Reader(partial(_with_size, partial(programs.python, name, **arguments)), metered)


def franz_go() -> Reader:
    return Reader(partial(_with_size, programs.go), metered)


def apache() -> Reader:
    """Kafka's own performance tool. It also prints lines periodically, which tell the time of the first record."""
    return Reader(_apache_command, from_apache)


def metered(output: Sequence[str], records: int, cpu_seconds: float) -> Mapping[str, float]:
    """The figures from the output of contenders/meter.py and the Go program."""
    result = json.loads(output[-1])
    return {
        RATE: result["records"] / result["seconds"],
        CPU: 1e6 * result["cpu"] / result["records"],
        FIRST: result["first"],
    }


def from_apache(output: Sequence[str], records: int, cpu_seconds: float) -> Mapping[str, float]:
    """The figures from its output: the first line is printed at the first record, the last one at the end."""
    lines = [line.split(", ") for line in output if line[:1].isdigit()]
    created, first, end = (
        datetime.strptime(at, _APACHE_TIME) for at in (lines[-1][0], lines[0][1], lines[-1][1])
    )
    return {
        RATE: int(lines[-1][5]) / (end - first).total_seconds(),
        CPU: 1e6 * cpu_seconds / records,
        FIRST: (first - created).total_seconds(),
    }


def _with_size(program: Callable[..., Command], max_records: int | None, **arguments: object) -> Command:
    return program(**arguments, **({} if max_records is None else {"max_records": max_records}))


def _apache_command(bootstrap: str, group: str, topic: str, records: int, max_records: int | None) -> Command:
    return programs.kafka_tool(
        "ShareConsumerPerformance",
        *("--bootstrap-server", bootstrap, "--group", group, "--topic", topic),
        *("--num-records", str(records), "--timeout", "60000"),
        *("--show-detailed-stats", "--reporting-interval", "1000"),
        *([] if max_records is None else ["--command-property", f"max.poll.records={max_records}"]),
    )
