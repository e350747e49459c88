"""Reads Java's properties files as Kafka does: clients' and servers' settings.

Names and values are stripped, as Kafka does with values. In contrast to Java, a line without a separator is refused: it
is more often a mistake than an empty value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kshare.errors import ConfigError

_ENTRY = re.compile(r"((?:\\.|[^\s:=\\])+)\s*[:=\s]\s*(.*)")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_MEANINGS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path) -> dict[str, str]:
    """If a name is written twice, the last one counts. Raises ConfigError, which contains no values, or OSError."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a properties file: not valid UTF-8 (byte {error.start})") from error
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _ENTRY.fullmatch(line)
        if match is None:
            raise ConfigError(f"{path}, line {number}: expected name=value")
        properties[_unescaped(match[1])] = _unescaped(match[2]).strip()
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, with those that a backslash continues, and the number of the first of them."""
    whole, first = "", 0
    for number, line in enumerate(re.split(r"\r\n?|\n", text), 1):
        stripped = line.lstrip()
        if not whole:
            if not stripped or stripped[0] in "#!":
                continue
            first = number
        whole += stripped
        if (len(whole) - len(whole.rstrip("\\"))) % 2:
            whole = whole[:-1]
        else:
            yield first, whole
            whole = ""
    if whole:
        yield first, whole


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(
        lambda found: chr(int(found[1][1:], 16)) if len(found[1]) > 1 else _MEANINGS.get(found[1], found[1]),
        text,
    )
