"""Commands whose output pipe is closed, or that are interrupted by Ctrl-C while they wait."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator

import pytest

from kshare.testing import Broker
from tests.cli.packets import CAPTURES
from tests.cli.running import DEADLINE, KSHARE, ROOT

pytestmark = pytest.mark.lengthy

AT_A_CLUSTER = [["groups", "list"], ["groups", "config", "show", "g"], ["dlq", "list"], ["doctor"]]
OF_A_FILE = [["pcap", str(CAPTURES / "ethernet.pcap")]]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def named(words: list[str]) -> str:
    return words[0] if words[0] != "groups" else " ".join(words[:2])


@pytest.mark.parametrize("words", [*AT_A_CLUSTER, *OF_A_FILE], ids=named)
def test_closed_pipe_ends_it_quietly(broker: Broker, words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*KSHARE, *words],
            stdout=writer,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "KSHARE_BOOTSTRAP_SERVER": broker.bootstrap},
            timeout=DEADLINE,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("words", AT_A_CLUSTER, ids=named)
def test_ctrl_c_ends_it_quietly(words: list[str]) -> None:
    """Interrupted while it waits for a server that doesn't respond."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE)
        where = "{}:{}".format(*server.getsockname())
        process = subprocess.Popen(
            [*KSHARE, *words, "-b", where], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
        )
        try:
            peer, _ = server.accept()
            with peer:
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=DEADLINE)
        finally:
            process.kill()
            process.communicate()
    assert (process.returncode, out, err.strip()) == (130, b"", b"")
