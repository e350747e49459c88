"""Commands that show records whose batches become far more than they seem to be: their memory is bounded."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from kshare.protocol.compression import Compression
from kshare.testing import Broker
from tests.fakes.bombs import MIB, append, bomb
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
    most = 0.0
    with (tmp_path / "output").open("w+") as output:
        arguments = [sys.executable, "-m", "kshare", *(given.get(word, word) for word in command)]
        with subprocess.Popen(arguments, stdout=output, stderr=subprocess.STDOUT) as process:
            while process.poll() is None:
                most = max(most, most_mib(process.pid))
                time.sleep(0.01)
        output.seek(0)
        assert "Traceback" not in output.read()
    assert process.returncode in (0, 1)
    assert most < MOST_MIB
