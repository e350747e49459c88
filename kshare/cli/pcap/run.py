"""What `kshare pcap` does: reads a capture from a file or from standard input, and shows its traffic."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.traffic.capture import show_capture
from kshare.cli.terminal.traffic.view import Show

_CHUNK = 1024 * 1024


def run_pcap(file: str, ports: list[int], show: Show) -> None:
    show_capture(_chunks(file), "standard input" if file == "-" else file, ports, show)


def _chunks(file: str) -> Iterator[bytes]:
    if file != "-":
        with Path(file).open("rb") as opened:
            while chunk := opened.read(_CHUNK):
                yield chunk
        return
    if sys.stdin.isatty():
        raise Failure(
            "what is to be read? Give a file's name, or pipe a capture in: tcpdump -U -w - | kshare pcap -"
        )
    with suppress(KeyboardInterrupt):  # Ctrl-C ends a capture that is under way: what was seen is summed up
        while chunk := os.read(sys.stdin.fileno(), _CHUNK):
            yield chunk
