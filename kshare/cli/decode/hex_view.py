"""The annotated hex dump: every byte, in order, with the name of its field.

Fields are listed below the path of their parent, so that names and values fit into a small window.
"""

from __future__ import annotations

from kshare.cli.terminal.screen import COLOURS, FAINT, NAME, NOTE, PROBLEM, Part, Screen
from kshare.dissect import ByteSpan
from kshare.wire.value_text import note_or_problem, parent_and_name, style_of, value_text

_ROW = 8
_MARGIN = " " * 35
_LONG_VALUE = 24
"""Longer values are shortened; their text is shown beside their bytes."""


def draw_hex(screen: Screen, span: ByteSpan, start: int) -> None:
    above = ""
    for leaf in span.leaves():
        parent, name = parent_and_name(leaf)
        if parent != above:
            screen.line((_MARGIN, ""), (parent or "the frame", FAINT))
            above = parent
        _draw(screen, leaf, name, start)
        if leaf.inflated:
            is_stored_plain = leaf.kind == "bytes"
            screen.line((_MARGIN, ""), ("read as" if is_stored_plain else "unpacked", FAINT))
            draw_hex(screen, leaf.inflated.root, start + leaf.offset if is_stored_plain else 0)
            above = leaf.path


def _draw(screen: Screen, leaf: ByteSpan, name: str, start: int) -> None:
    style = COLOURS[style_of(leaf)]
    for at in range(0, leaf.length, _ROW):
        row = bytes(leaf.raw[at : at + _ROW])
        parts = [(f"{start + leaf.offset + at:08x}  ", FAINT), (row.hex(" ").ljust(3 * _ROW), style)]
        if at == 0:
            parts += _annotation(leaf, name, style)
        elif leaf.kind != "uuid":
            parts += [("  ", ""), ("".join(chr(c) if 32 <= c < 127 else "." for c in row), style)]
        screen.line(*parts)


def _annotation(leaf: ByteSpan, name: str, style: str) -> list[Part]:
    parts = [(" ", ""), (name, NAME)]
    value = value_text(leaf) if leaf.kind != "unread" else ""
    if value:
        short = value if len(value) <= _LONG_VALUE else f"{value[:_LONG_VALUE]}…"
        parts += [(" ", ""), (short, style)]
    if (note := note_or_problem(leaf)) and note != value:
        parts += [("  ", ""), (note, PROBLEM if leaf.problem or leaf.kind == "unread" else NOTE)]
    return parts
