"""Reads the input of `kshare decode`: an argument, a file, standard input; raw, hex, base64 or escaped."""

from __future__ import annotations

import mmap
from pathlib import Path
from textwrap import shorten

from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.standard_input import piped_input, standard_input
from kshare.wire.pasted_text import FORMS, Buffer, coding_of, from_file, from_text

NO_INPUT = "no input: give bytes as text or a file name, or pipe bytes in"

_SHOWN = 80


def read_input(source: str | None, coding: str | None) -> Buffer:
    """`source` is a file's name, `-` for standard input, or the bytes themselves as text."""
    if source is None or source == "-":
        piped = piped_input(NO_INPUT) if source is None else standard_input()
        data: Buffer = piped.buffer.read()
    elif not source.strip():
        raise Failure(NO_INPUT)
    elif _exists(source):
        data = _map(Path(source))
    elif coding is None and coding_of(source.strip()) is None:
        raise Failure(f"{shorten(source, _SHOWN)!r}: no such file, and it isn't {FORMS}")
    else:
        return _whole(from_text(source, coding), source)
    _whole(data, source)
    return _whole(from_file(data, coding), source)


def taken_for_text(source: str | None) -> str:
    """What to say of bytes that make no sense, if they may be the name of a file that doesn't exist; else empty."""
    if source is None or source == "-" or len(source) > _SHOWN or _exists(source):
        return ""
    return f"{source!r}: no such file; as base64, " if coding_of(source.strip()) == "base64" else ""


def _exists(source: str) -> bool:
    try:
        return Path(source).exists()
    except (OSError, ValueError):  # too long for a file name, or with null bytes
        return False


def _map(path: Path) -> Buffer:
    """Map a file instead of reading it: a broker's segment has a gigabyte."""
    with path.open("rb") as file:
        if not path.is_file():  # a pipe made by the shell: <(...)
            return file.read()
        if path.stat().st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _whole(data: Buffer, source: str | None) -> Buffer:
    if not len(data):
        raise Failure(f"{source or 'standard input'}: no bytes at all")
    return data
