"""Draws the tree view: one line per field, with its byte range, value and meaning."""

from __future__ import annotations

from kshare.cli.terminal.screen import FAINT, Screen, styled
from kshare.dissect import ByteSpan
from kshare.wire.tree_lines import tree_lines

_RANGE_WIDTH = 11


def draw_tree(screen: Screen, span: ByteSpan, start: int) -> None:
    last = str(start + span.end)
    width = max(_RANGE_WIDTH, 2 * len(last) + 2)
    for line in tree_lines(span, start):
        screen.line((line.range.ljust(width), FAINT), ("  " * line.depth, ""), *styled(line.parts))
