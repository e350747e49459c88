"""Names of styles: whatever is laid out uses only these, and the terminal has a colour for each."""

from __future__ import annotations

from kshare.cli.terminal.screen import COLOURS
from kshare.traffic.findings import Severity
from kshare.wire.named_input import name_input
from kshare.wire.styles import STYLES
from tests.cli import frames


def test_the_terminal_has_a_colour_for_each_style() -> None:
    assert COLOURS.keys() == STYLES
    assert {severity.value for severity in Severity} <= STYLES


def test_spans_have_these_styles() -> None:
    damaged = bytearray(frames.state_segment())
    damaged[-1] ^= 1
    for data in (frames.fetch_request(), frames.fetch_response(), bytes(damaged), frames.login()[:-9]):
        for part in name_input(data).parts:
            for span in part.named.spans:
                assert {span.style, *(style for _, style in span.line)} <= STYLES
