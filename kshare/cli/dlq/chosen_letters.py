"""Selects dead letters by the options of the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence

import typer

from kshare.cli.terminal.times import written_time
from kshare.dead_letters.selection import Selection

_NUMBER = re.compile(r"[0-9]{1,18}")


def selection(
    sources: Sequence[str] | None,
    groups: Sequence[str] | None,
    reasons: Sequence[str] | None,
    since: str | None,
    until: str | None,
    letters: Sequence[str] | None,
) -> Selection:
    return Selection(
        frozenset(sources or ()),
        frozenset(groups or ()),
        tuple(reasons or ()),
        _milliseconds("--since", since),
        _milliseconds("--until", until),
        frozenset(_place(one) for one in letters or ()),
    )


def _place(written: str) -> tuple[int, int]:
    partition, _, offset = written.partition(":")
    if not (_NUMBER.fullmatch(partition) and _NUMBER.fullmatch(offset)):
        raise typer.BadParameter(f"--letter {written}: write PARTITION:OFFSET, as in 0:17")
    return int(partition), int(offset)


def _milliseconds(option: str, written: str | None) -> int | None:
    return None if written is None else int(written_time(option, written).timestamp() * 1000)
