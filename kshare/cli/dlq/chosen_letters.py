"""Selects dead letters by the options of the command line, and checks the topics that are named there."""

from __future__ import annotations

import re
from collections.abc import Sequence

import typer

from kshare.cli.terminal.arguments import require_whole_topics, written_time
from kshare.dead_letters.selection import Selection

_NUMBER = re.compile(r"[0-9]{1,18}")


def require_topic_arguments(topic: str, sources: Sequence[str] | None, target: str | None = None) -> None:
    """Refuse names that no topic can have, such as orders:0: dead letters are chosen by --letter."""
    require_whole_topics("TOPIC", [topic])
    require_whole_topics("--source", sources or ())
    require_whole_topics("--to", [] if target is None else [target])


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
        frozenset(map(_place, letters or ())),
    )


def _place(written: str) -> tuple[int, int]:
    partition, _, offset = written.partition(":")
    if not (_NUMBER.fullmatch(partition) and _NUMBER.fullmatch(offset)):
        raise typer.BadParameter(f"--letter {written}: write PARTITION:OFFSET, as in 0:17")
    return int(partition), int(offset)


def _milliseconds(option: str, written: str | None) -> int | None:
    return None if written is None else int(written_time(option, written).timestamp() * 1000)
