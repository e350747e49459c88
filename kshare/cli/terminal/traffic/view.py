"""Shows traffic for `kshare trace` and `kshare pcap`: lines, trees, JSON, and linter findings.

Output is buffered: callers must call `flush`. Credentials are never shown, whatever the options.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby

from rich.cells import cell_len

from kshare.capture import CaptureError, CaptureReader
from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.screen import FAINT, NAME, Part, Screen, styled
from kshare.cli.terminal.traffic.summary import show_summary
from kshare.cli.terminal.tree_view import draw_tree
from kshare.dissect import dissection_json
from kshare.protocol.json_form import uuid_text
from kshare.traffic import AnalyzedExchange, Filter, Finding
from kshare.traffic.exchange_text import finding_line
from kshare.traffic.names import Names
from kshare.traffic.summary import Summary
from kshare.traffic.traffic_json import exchange_json, finding_json, summary_json
from kshare.wire.captured_traffic import CapturedTraffic
from kshare.wire.exchange_readings import exchange_readings
from kshare.wording import counted

_BETWEEN = ("  ", "")
_INDENT = " " * 13
_DATE = len("2026-11-21 ")


@dataclass(frozen=True, slots=True)
class TrafficOptions:
    """What to show, and how."""

    filter: Filter = field(default_factory=Filter)
    is_json: bool = False
    is_verbose: bool = False
    only_findings: bool = False


class TrafficView:
    def __init__(self, screen: Screen, show: TrafficOptions) -> None:
        self._screen = screen
        self._show = show
        self._unnamed: Counter[bytes] = Counter()
        """By topic id: how many exchanges weren't shown because the topic's name wasn't known."""
        self._names: Names | None = None

    def begin(self, listen: str, cluster: str) -> None:
        """Show the address that clients must connect to."""
        if self._show.is_json:
            self._json({"type": "listening", "address": listen, "cluster": cluster})
        else:
            self._screen.line((f"clients of {cluster} connect to ", FAINT), (listen, NAME))
            self._screen.line(("Ctrl-C ends it with a summary", FAINT))
        self._screen.done()

    def show(self, analyzed: AnalyzedExchange) -> None:
        show = self._show
        if not show.only_findings:
            self._choose(analyzed)
        if analyzed.findings:
            self.findings(analyzed.findings)

    def _choose(self, analyzed: AnalyzedExchange) -> None:
        show = self._show
        if show.filter.wants(analyzed.exchange, analyzed.mentioned, analyzed.names):
            if show.is_json:
                self._write_json(analyzed)
            else:
                self._draw(analyzed)
        elif unnamed := show.filter.unnamed(analyzed.exchange, analyzed.mentioned, analyzed.names):
            self._unnamed.update(unnamed)
            self._names = analyzed.names

    def flush(self) -> None:
        """Flush the output."""
        self._screen.done()

    def findings(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            if self._show.is_json:
                self._json(finding_json(finding))
            else:
                self._line((f"{_clock(finding.time)} ", FAINT), *styled(finding_line(finding)))

    def note(self, text: str) -> None:
        """Show a message that isn't traffic."""
        if self._show.is_json:
            self._json({"type": "note", "text": text})
        else:
            self._screen.line((text, FAINT))
        self._screen.done()

    def unnamed(self) -> None:
        """Show what `--topic` may have left out: exchanges that identify a topic only by its id."""
        if self._names is None:
            return
        wanted = self._show.filter.topics
        mentioned = {topic_id: self._names.name(topic_id) for topic_id in self._unnamed}
        for topic_id, count in self._unnamed.most_common():
            name, uuid = mentioned[topic_id], uuid_text(topic_id)
            exchanges = counted(count, "exchange")
            if name is None:
                text = f"{exchanges} of topic id {uuid} not shown: its name doesn't occur in the traffic"
            elif name in wanted:
                text = f"{exchanges} of {name} not shown: they came before its name was known"
            else:
                continue
            self.note(f"{text}; --topic {uuid} shows them")

    def summary(self, summary: Summary) -> None:
        if self._show.is_json:
            self._json(summary_json(summary))
        else:
            show_summary(self._screen, summary)
        self._screen.done()

    # --- one exchange

    def _draw(self, analyzed: AnalyzedExchange) -> None:
        exchange = analyzed.exchange
        parts = analyzed.line if self._screen.is_plain else styled(analyzed.line)
        self._line((f"{_clock(exchange.ended_at)} ", FAINT), *parts)
        if not self._show.is_verbose:
            return
        if exchange.is_token:
            self._screen.line(("  a SASL token, masked", FAINT))
            return
        for side, reading in exchange_readings(exchange).items():
            self._screen.line((f"{side}  {reading.root.length} bytes", FAINT))
            draw_tree(self._screen, reading.root, 0)

    def _write_json(self, analyzed: AnalyzedExchange) -> None:
        form = exchange_json(analyzed.exchange, analyzed.share, analyzed.mentioned, analyzed.names)
        if self._show.is_verbose:
            for side, reading in exchange_readings(analyzed.exchange).items():
                form[side] = dissection_json(reading)
        self._json(form)

    def _line(self, *parts: Part) -> None:
        """Print a line, wrapped if the terminal is too narrow."""
        if self._screen.is_plain:
            self._screen.line(*parts)
            return
        for line in _folded(parts, self._screen.width):
            self._screen.line(*line)

    def _json(self, form: object) -> None:
        self._screen.text(json.dumps(form, ensure_ascii=not self._screen.is_plain) + "\n")


def show_capture(chunks: Iterable[bytes], name: str, ports: list[int], show: TrafficOptions) -> None:
    """Show a network capture, with notes at the end that say what is missing in it."""
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
    traffic.end()
    view.summary(traffic.summary)
    if show.is_json:
        screen.text(json.dumps(traffic.json) + "\n")
    for note in traffic.notes():
        view.note(note)
    view.unnamed()
    screen.done()
    if damage:
        raise Failure(f"{name}: {damage}")


def _folded(parts: Sequence[Part], width: int) -> Iterator[list[Part]]:
    """Wrap between parts, never inside one, even if a part is wider than the line."""
    line: list[Part] = []
    used = 0
    for is_gap, group in groupby(parts, lambda part: part[0] == _BETWEEN[0]):
        block = list(group)
        length = sum(cell_len(text) for text, _ in block)
        if not is_gap and line and used + length > width and used > len(_INDENT):
            yield line
            line, used = [(_INDENT, "")], len(_INDENT)
        line += block
        used += length
    yield line


def _clock(time: float) -> str:
    """The local time of day, with milliseconds."""
    return datetime.fromtimestamp(time).isoformat(" ", "milliseconds")[_DATE:]
