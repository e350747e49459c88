"""Shows a network capture, with notes at the end that say what is missing in it."""

from __future__ import annotations

import json
from collections.abc import Iterable

from kshare.capture import CaptureError, CaptureReader
from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.traffic.view import TrafficOptions, TrafficView
from kshare.wire.captured_traffic import CapturedTraffic


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
