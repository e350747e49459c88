"""Arguments that several commands take: topics with and without partitions, settings, times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

import typer

from kshare.protocol.topic_names import is_topic_name, what_to_use

Topics = dict[str, list[int] | None]
"""Topic names, with the chosen partitions; None means all partitions."""


def chosen_topics(written: Sequence[str]) -> Topics | None:
    """Parse topics given as `orders`, or `orders:0,1` as in Kafka's tools. None if no topic is given."""
    chosen: Topics = {}
    for text in written:
        name, colon, numbers = text.partition(":")
        if name in chosen:
            raise typer.BadParameter(f"--topic {name} is given twice")
        try:
            chosen[name] = [int(number) for number in numbers.split(",")] if colon else None
        except ValueError:
            raise typer.BadParameter(f"--topic {text}: partitions are numbers, as in orders:0,1") from None
    return chosen or None


def require_whole_topics(option: str, written: Iterable[str]) -> None:
    """Refuse what no topic can be called, such as `orders:0`, where no partitions can be chosen."""
    for name in written:
        if not is_topic_name(name):
            raise typer.BadParameter(f"{option} {name}: not the name of a topic; {what_to_use(name)}")


def is_chosen(topics: Topics | None, topic: str, partition: int) -> bool:
    numbers = None if topics is None else topics.get(topic, [])
    return numbers is None or partition in numbers


def named_values(written: Iterable[str], refusal: Callable[[str], Exception]) -> Iterator[tuple[str, str]]:
    """Parse NAME=VALUE. Raises the refusal of a text that isn't."""
    for text in written:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise refusal(text)
        yield name, value


def settings(written: Iterable[str]) -> dict[str, str]:
    """Parse settings given as name=value."""
    return dict(named_values(written, lambda text: typer.BadParameter(f"{text!r} should be name=value")))


def written_time(option: str, text: str) -> datetime:
    """Parse a time; UTC if it has no zone."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{option} {text}: write it as 2026-01-31T12:00:00") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
