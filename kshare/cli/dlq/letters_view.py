"""What `kshare dlq list` and `kshare dlq show` show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kshare.admin.reading_budget import LONGEST_VALUE
from kshare.admin.routing import Router
from kshare.cli.cluster.connection import Cluster
from kshare.cli.cluster.known_names import explaining
from kshare.cli.dlq.run_view import complain_of_unreadable
from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.table import show, show_json
from kshare.dead_letters.dead_letter import DeadLetter, meaning, readable
from kshare.dead_letters.duplicates import letter_identity
from kshare.dead_letters.letter_states import LetterStates, readable_states
from kshare.dead_letters.moves import Moves
from kshare.dead_letters.read import accepts_dead_letters, bounds, letters, list_dead_letter_topics
from kshare.dead_letters.selection import Selection
from kshare.dead_letters.unreadable import Unreadable
from kshare.wording import counted, iso_time

_MOST_SHOWN = 64 << 20
"""Bytes of keys, values and headers that are kept to be shown."""
_HEADS = ["LETTER", "WRITTEN", "FROM", "GROUP", "TIMES", "REASON"]


def show_topics(cluster: Cluster, group: str | None, is_json: bool) -> None:
    found = cluster.run_routed(lambda router: list_dead_letter_topics(router, group))
    screen = Screen()
    if is_json:
        show_json(screen, found)
    elif found:
        has_settled = any(topic.settled for topic in found)
        heads = ["TOPIC", "PARTITIONS", "LETTERS", *(["SETTLED"] if has_settled else []), "OF GROUPS"]
        rows = [
            (
                *(topic.topic, topic.partitions, topic.letters),
                *((topic.settled,) if has_settled else ()),
                " ".join(topic.groups) or None,
            )
            for topic in found
        ]
        show(screen, heads, rows, ["PARTITIONS", "LETTERS", "SETTLED"])
    else:
        screen.line("no dead-letter topics are marked as such")
        hint = "kshare dlq show TOPIC shows those of one that isn't; before Kafka 4.4, topics can't be marked"
        screen.line((hint, "dim"))
    screen.done()
    complain_of_unreadable([text for topic in found for text in topic.problems])


def show_letters(
    cluster: Cluster,
    topic: str,
    group: str,
    selection: Selection,
    max_letters: int | None,
    explain: bool,
    is_json: bool,
) -> None:
    """Show dead letters, and mark those that this group has settled or given up."""
    moves, unreadable = Moves(), Unreadable()
    keeps_value = explain or is_json

    async def work(router: Router) -> tuple[list[DeadLetter], LetterStates | None, str]:
        found: list[DeadLetter] = []
        firsts, ends = await explaining(router, [topic], bounds(router, topic))
        states = await readable_states(router, topic, group, firsts, ends)
        room = _MOST_SHOWN
        async for letter in letters(router, topic, firsts, ends, unreadable):
            moves.note(letter)
            if selection.wants(letter):
                found.append(letter.cut(LONGEST_VALUE if keeps_value else 0, letter_identity(letter)))
                room -= found[-1].kept_bytes
                if len(found) == max_letters or room <= 0:
                    break
        has_letter = any(letter.is_dead_letter for letter in found)
        problem = "" if has_letter else await if_none_is_letter(router, topic, len(found))
        return [] if problem else found, states, problem

    found, states, problem = cluster.run_routed(work)
    marks = [_Mark.of(letter, states, moves) for letter in found]
    screen = Screen()
    if is_json:
        show_json(
            screen, [letter_form(letter) | mark.form for letter, mark in zip(found, marks, strict=True)]
        )
    elif not found:
        screen.line(problem or "no matching dead letters")
    elif explain:
        for index, (letter, mark) in enumerate(zip(found, marks, strict=True)):
            if index:
                screen.line()
            _explain(screen, letter)
            if mark.is_settled:
                screen.line((f"  settled by group {group}: {mark.explanation}", "green"))
            if mark.is_given_up:
                lost = f"  given up by group {group} at its delivery count limit: use another --group"
                screen.line((lost, "red"))
    else:
        show_rows(screen, found, "SETTLED", [mark.text for mark in marks])
    screen.done()
    if sum(letter.kept_bytes for letter in found) >= _MOST_SHOWN:
        at = f"{found[-1].partition}:{found[-1].offset}"
        raise Failure(
            f"dead letters after {at} aren't shown, because they would take too much memory: choose with --letter"
        )
    complain_of_unreadable(unreadable.texts)


@dataclass(frozen=True, slots=True)
class _Mark:
    """What the tracking group knows of a dead letter; None if we may not read that."""

    is_settled: bool | None = None
    is_given_up: bool | None = None
    """Also None if brokers no longer tell whether it was settled or given up."""
    moved_to: str | None = None
    """Where it is now, if it was settled because it was moved, and its copy was read."""
    told: str | None = None
    """The same for users, and what became of it there."""

    @classmethod
    def of(cls, letter: DeadLetter, states: LetterStates | None, moves: Moves) -> _Mark:
        if states is None:
            return cls()
        if not states.has_settled(letter):
            return cls(is_settled=False, is_given_up=states.has_given_up(letter))
        return cls(
            True,
            None if states.may_have_given_up(letter) else False,
            moves.moved_to(letter),
            moves.told(letter, states),
        )

    @property
    def text(self) -> str | None:
        if self.is_settled:
            return self.told or "yes"
        return "given up" if self.is_given_up else None

    @property
    def explanation(self) -> str:
        """Of a letter that is settled."""
        if self.told is not None:
            return self.told
        if self.is_given_up is None:
            return "redriven, dropped or moved; or given up, which brokers no longer distinguish"
        return "redriven, dropped or moved"

    @property
    def form(self) -> dict[str, Any]:
        return {"settled": self.is_settled, "given_up": self.is_given_up, "moved_to": self.moved_to}


async def if_none_is_letter(router: Router, topic: str, count: int) -> str:
    """A note that these records are of an ordinary topic. Empty if there are none, or they may be dead letters."""
    if not count or await accepts_dead_letters(router, topic):
        return ""
    return f"none of these {counted(count, 'record')} is a dead letter"


def _explain(screen: Screen, letter: DeadLetter) -> None:
    screen.line(
        (f"{letter.topic}[{letter.partition}]@{letter.offset}", "bold"), (f"  written {_time(letter)}", "")
    )
    if not letter.context:
        screen.line(("  not a dead letter of Kafka's: it has no dead-letter headers", "yellow"))
    rows = [(name, readable(value), meaning(name)) for name, value in letter.context.items()]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    for name, value, description in rows:
        screen.line(
            (f"  {name.ljust(widths[0])}  ", "cyan"),
            (value.ljust(widths[1]), ""),
            (f"  {description}", "dim"),
        )
    for name, own in letter.own_headers:
        screen.line((f"  {name}: {readable(own)}", ""), ("  a header of the record", "dim"))
    if letter.more_headers:
        screen.line((f"  {counted(letter.more_headers, 'more header')}, which kshare doesn't read", "yellow"))
    if letter.has_copy:
        screen.line(("  key    ", "cyan"), (readable(letter.key), ""))
        screen.line(("  value  ", "cyan"), (readable(letter.value), ""))
    else:
        screen.line(("  no copy of key and value: a redrive reads the original record", "dim"))


def show_rows(screen: Screen, letters: Sequence[DeadLetter], head: str, marks: Sequence[str | None]) -> None:
    """A table, in which `marks` have a column of their own with this head, if there are any."""
    heads, rows = _HEADS, [_row(letter) for letter in letters]
    if any(marks):
        heads = [*_HEADS[:-1], head, _HEADS[-1]]
        rows = [(*row[:-1], mark, row[-1]) for row, mark in zip(rows, marks, strict=True)]
    show(screen, heads, rows, ["TIMES"])


def _row(letter: DeadLetter) -> tuple[object, ...]:
    return (
        letter.place,
        _time(letter),
        letter.origin,
        letter.group,
        letter.deliveries,
        None if letter.reason is None else readable(letter.reason.encode()),
    )


def letter_form(letter: DeadLetter) -> dict[str, Any]:
    origin = letter.origin
    return {
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp": letter.timestamp,
        "source": origin and {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset},
        "group": letter.group,
        "deliveries": letter.deliveries,
        "reason": letter.reason,
        "context": {name: _readable(value) for name, value in letter.context.items()},
        "headers": [[name, _readable(value)] for name, value in letter.own_headers],
        "more_headers": letter.more_headers,
        "key": _readable(letter.key),
        "value": _readable(letter.value),
    }


def _readable(value: bytes | None) -> str | None:
    return None if value is None else readable(value)


def _time(letter: DeadLetter) -> str:
    return iso_time(letter.timestamp).partition(".")[0].replace("T", " ")
