"""Runs `kshare pcap`: reads a capture from a file or from standard input, and shows its traffic."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from kshare.capture import CaptureError, CaptureReader
from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.standard_input import piped_input
from kshare.cli.terminal.traffic.view import TrafficOptions, TrafficView
from kshare.wire.captured_traffic import CapturedTraffic

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


def show_capture(chunks: Iterable[bytes], name: str, ports: list[int], show: TrafficOptions) -> None:
    screen = Screen()
    view = TrafficView(screen, show)
    traffic = CapturedTraffic(view, ports)
    reader = CaptureReader()
    damage: CaptureError | None = None
    try:
        for chunk in chunks:
            for packet in reader.feed(chunk):
                traffic.packet(packet)
            screen.done()
        reader.finish()
    except CaptureError as problem:
        if not traffic.packets:
            raise Failure(f"{name}: {problem}") from None
        damage = problem
    _end(screen, view, traffic, show)
    if damage:
        raise Failure(f"{name}: {damage}")


def _end(screen: Screen, view: TrafficView, traffic: CapturedTraffic, show: TrafficOptions) -> None:
    traffic.end()
    view.summary(traffic.summary)
    if show.is_json:
        screen.text(json.dumps(traffic.json) + "\n")
    for note in traffic.notes():
        view.note(note)
    view.unnamed()
    screen.done()
