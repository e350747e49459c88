"""Runs `kshare pcap`: reads a capture from a file or from standard input, and shows its traffic."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kshare.cli.terminal.standard_input import piped_input
from kshare.cli.terminal.traffic.view import TrafficOptions, show_capture

_CHUNK = 1024 * 1024


def run_pcap(file: str, ports: list[int], show: TrafficOptions) -> None:
    show_capture(_chunks(file), "standard input" if file == "-" else file, ports, show)


def _chunks(file: str) -> Iterator[bytes]:
    if file != "-":
        with Path(file).open("rb") as opened:
            while chunk := opened.read(_CHUNK):
                yield chunk
        return
    piped = piped_input("no input: name a file, or pipe a capture in: tcpdump -U -w - | kshare pcap -")
    with suppress(KeyboardInterrupt):  # Ctrl-C ends a live capture; the summary follows
        while chunk := os.read(piped.fileno(), _CHUNK):
            yield chunk
