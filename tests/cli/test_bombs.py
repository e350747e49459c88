"""Commands that show records whose batches become far more than they seem to be: their memory is bounded."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from kshare.protocol.compression import Compression
from kshare.testing import Broker
from tests.fakes.bombs import MIB, append, bomb, many_headers, many_records
from tests.helpers.memory import most_mib

pytestmark = pytest.mark.lengthy

TOPIC = "dlq.attacked"
MOST_MIB = 450
"""One batch at a time, compressed and not, beside Python."""


def bombs() -> list[bytes]:
    """160 MiB each. Snappy shrinks zeros to a twentieth only, and brokers take batches of a mebibyte."""
    codecs = [codec for codec in Compression if codec]
    return [bomb((15 if codec is Compression.SNAPPY else 160) * MIB, codec) for codec in codecs] * 2


@pytest.mark.parametrize(
    "command",
    [
        ("decode", "FILE", "--tree"),
        ("decode", "FILE", "--guesses"),
        ("dlq", "list", "-b", "BROKER"),
        ("dlq", "show", "-b", "BROKER", TOPIC),
        ("dlq", "redrive", "-b", "BROKER", TOPIC, "--dry-run"),
    ],
    ids=" ".join,
)
def test_memory_is_bounded(kshare_broker: Broker, tmp_path: Path, command: tuple[str, ...]) -> None:
    segment = tmp_path / "segment.log"
    segment.write_bytes(b"".join(bombs()))
    kshare_broker.create_topic(TOPIC, 1)
    for data in bombs():
        append(kshare_broker, TOPIC, data)
    given = {"FILE": str(segment), "BROKER": kshare_broker.bootstrap}
    assert most_of([given.get(word, word) for word in command], tmp_path) < MOST_MIB


@pytest.mark.parametrize(
    "command",
    [
        ("dlq", "list"),
        ("dlq", "show", TOPIC),
        ("dlq", "redrive", TOPIC, "--dry-run"),
        ("dlq", "redrive", TOPIC),
        ("dlq", "drop", TOPIC, "--all", "--dry-run"),
    ],
    ids=" ".join,
)
def test_memory_is_bounded_with_millions_of_headers(
    kshare_broker: Broker, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """A record of 1,500 bytes took 760 MiB, and some commands minutes."""
    kshare_broker.create_topic(TOPIC, 1, {"errors.deadletterqueue.group.enable": "true"})
    append(kshare_broker, TOPIC, many_headers(5_000_000))
    assert most_of([*command, "-b", kshare_broker.bootstrap], tmp_path) < 200


def test_memory_of_a_dry_run_is_bounded_with_millions_of_records(
    kshare_broker: Broker, tmp_path: Path
) -> None:
    kshare_broker.create_topic(TOPIC, 1, {"errors.deadletterqueue.group.enable": "true"})
    append(kshare_broker, TOPIC, many_records(800_000))
    command = ["dlq", "redrive", TOPIC, "--dry-run", "--max", "5", "-b", kshare_broker.bootstrap]
    assert most_of(command, tmp_path) < 200


def most_of(command: Sequence[str], tmp_path: Path) -> float:
    """The most memory of a command that shows no traceback, in MiB."""
    most = 0.0
    with (tmp_path / "output").open("w+") as output:
        arguments = [sys.executable, "-m", "kshare", *command]
        with subprocess.Popen(arguments, stdout=output, stderr=subprocess.STDOUT) as process:
            while process.poll() is None:
                most = max(most, most_mib(process.pid))
                time.sleep(0.01)
        output.seek(0)
        assert "Traceback" not in output.read()
    assert process.returncode in (0, 1)
    return most
