"""What `kshare dlq` shows: topics, dead letters, and the progress and result of a redrive."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from kshare.admin.routing import Router
from kshare.cli.cluster.connection import Cluster
from kshare.cli.dlq.dead_letter import Letter, meaning, readable
from kshare.cli.dlq.read import bounds, dead_letter_topics, letters, takes_letters
from kshare.cli.dlq.redrive import Outcome, Planned, check_target, plan, redrive
from kshare.cli.dlq.redrive_records import Orders, Tally
from kshare.cli.dlq.redriven import SettledLetters, default_group, settled_letters
from kshare.cli.dlq.selection import Choice
from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.table import show, show_json
from kshare.cli.terminal.times import iso_time
from kshare.cli.terminal.wording import counted
from kshare.errors import NotAuthorized

_HEADS = ["LETTER", "WRITTEN", "FROM", "GROUP", "TIMES", "REASON"]


def show_topics(cluster: Cluster, group: str | None, is_json: bool) -> None:
    found = cluster.run_routed(lambda router: dead_letter_topics(router, group))
    screen = Screen()
    if is_json:
        show_json(screen, found)
    elif found:
        has_redriven = any(one.redriven for one in found)
        heads = ["TOPIC", "PARTITIONS", "LETTERS", *(["REDRIVEN"] if has_redriven else []), "OF GROUPS"]
        rows = [
            (
                *(one.topic, one.partitions, one.letters),
                *((one.redriven,) if has_redriven else ()),
                " ".join(one.groups) or None,
            )
            for one in found
        ]
        show(screen, heads, rows, ["PARTITIONS", "LETTERS", "REDRIVEN"])
    else:
        screen.line(("no topic takes dead letters", ""))
    screen.done()


def show_letters(
    cluster: Cluster,
    topic: str,
    group: str,
    choice: Choice,
    most: int | None,
    explain: bool,
    is_json: bool,
) -> None:
    """Those that this group has redriven are marked."""

    async def work(router: Router) -> tuple[list[Letter], SettledLetters | None, str]:
        found: list[Letter] = []
        firsts, ends = await bounds(router, topic)
        try:
            settled = await settled_letters(router, topic, group, firsts, ends)
        except NotAuthorized:
            settled = None
        async for letter in letters(router, topic, firsts, ends):
            if choice.wants(letter):
                found.append(letter)
                if len(found) == most:
                    break
        others = await _if_none_is_letter(router, topic, found)
        return [] if others else found, settled, others

    found, settled, others = cluster.run_routed(work)
    redriven = [settled.has(one) if settled else None for one in found]
    screen = Screen()
    if is_json:
        pairs = zip(found, redriven, strict=True)
        show_json(screen, [{**_form(one), "redriven": is_done} for one, is_done in pairs])
    elif not found:
        screen.line((others or "there is no such letter", ""))
    elif explain:
        for index, one in enumerate(found):
            if index:
                screen.line(("", ""))
            _explain(screen, one)
            if redriven[index]:
                screen.line((f"  redriven by group {group}", "green"))
    elif any(redriven):
        rows = [
            (*_row(one)[:-1], "yes" if is_done else None, _row(one)[-1])
            for one, is_done in zip(found, redriven, strict=True)
        ]
        show(screen, [*_HEADS[:-1], "REDRIVEN", _HEADS[-1]], rows, ["TIMES"])
    else:
        show(screen, _HEADS, [_row(one) for one in found], ["TIMES"])
    screen.done()


def run_redrive(
    cluster: Cluster, topic: str, group: str | None, orders: Orders, is_dry_run: bool, is_json: bool
) -> None:
    check_target(topic, orders.target)
    named = group or default_group(topic)
    screen = Screen()
    if is_dry_run:
        planned = cluster.run_routed(lambda router: plan(router, topic, named, orders))
        if orders.target is None:
            _require_a_letter(cluster, topic, [one.letter for one in planned])
        _show_plan(screen, planned, is_json)
        screen.done()
        return
    progress = _Progress()
    try:
        outcome = cluster.run_routed(
            lambda router: redrive(router, cluster.options, topic, named, orders, progress.tell)
        )
    finally:
        progress.done()
    if not is_json and not outcome.problem and not outcome.tally.redriven:
        _require_a_letter(cluster, topic, [letter for letter, _ in outcome.tally.left])
    _show_outcome(screen, outcome, named, is_json)
    screen.done()
    _complain(outcome, named, orders)


async def _if_none_is_letter(router: Router, topic: str, found: Sequence[Letter]) -> str:
    """What is to be said of an ordinary topic; empty if it has a dead letter, or nothing, or is meant for them."""
    if not found or any(one.is_dead_letter for one in found) or await takes_letters(router, topic):
        return ""
    return f"none of these {counted(len(found), 'record')} is a dead letter"


def _require_a_letter(cluster: Cluster, topic: str, found: Sequence[Letter]) -> None:
    if others := cluster.run_routed(lambda router: _if_none_is_letter(router, topic, found)):
        raise Failure(f"{others}: none says where it came from; to write them somewhere, name it by --to")


class _Progress:
    """One line on stderr, written over and over, if somebody looks at it."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._width = 0

    def tell(self, tally: Tally) -> None:
        if self._is_shown:
            text = f"redriven {tally.redriven}, passed over {tally.passed_over}, left {len(tally.left)}"
            text += f"; waiting for {counted(tally.waits_for, 'other member')}" if tally.waits_for else ""
            sys.stderr.write(f"\r{text.ljust(self._width)}")
            sys.stderr.flush()
            self._width = len(text)

    def done(self) -> None:
        if self._width:
            sys.stderr.write(f"\r{' ' * self._width}\r")
            sys.stderr.flush()


def _show_plan(screen: Screen, planned: Sequence[Planned], is_json: bool) -> None:
    if is_json:
        rows = [{**_form(one.letter), "to": one.target, "problem": one.reason} for one in planned]
        return show_json(screen, rows)
    if not planned:
        return screen.line(("there is nothing to be redriven", ""))
    rows_shown = [
        (one.letter.place, one.letter.origin, one.target if one.reason is None else f"stays: {one.reason}")
        for one in planned
    ]
    show(screen, ["LETTER", "FROM", "TO"], rows_shown)
    count = sum(one.reason is None for one in planned)
    screen.line((f"{counted(count, 'letter')} would be redriven; nothing was changed", ""))
    return None


def _show_outcome(screen: Screen, outcome: Outcome, group: str, is_json: bool) -> None:
    tally = outcome.tally
    if is_json:
        form = {
            "group": group,
            "redriven": tally.redriven,
            "targets": tally.targets,
            "passed_over": tally.passed_over,
            "left": [{"letter": one.place, "reason": reason} for one, reason in tally.left],
            "come_again": tally.again,
            "is_complete": outcome.is_complete,
        }
        return show_json(screen, form)
    targets = ", ".join(f"{count} to {topic}" for topic, count in sorted(tally.targets.items()))
    screen.line((f"{counted(tally.redriven, 'letter')} redriven{f': {targets}' if targets else ''}", ""))
    if tally.passed_over:
        screen.line((f"{counted(tally.passed_over, 'letter')} passed over", ""))
    if tally.again:
        screen.line(
            (
                f"{counted(tally.again, 'letter')} will come again, as the lock was lost: redriven twice then",
                "",
            )
        )
    for letter, reason in tally.left:
        screen.line((f"{letter.place} stays: {reason}", ""))
    return None


def _complain(outcome: Outcome, group: str, orders: Orders) -> None:
    tally = outcome.tally
    if outcome.problem is not None:
        raise Failure(outcome.problem)
    if tally.last_chances:
        raise Failure(
            f"{counted(tally.last_chances, 'letter')} won't be handed to group {group} again, so often was it given "
            f"them; they stay in the topic, to be had by another --group"
        )
    if not outcome.is_complete:
        hint = "" if orders.settles_others or not tally.passed_over else ", or pass over with --settle-others"
        raise Failure(
            f"not all letters were seen: others may be locked by a run that was killed, try again in a minute{hint}"
        )
    if tally.left:
        raise Failure(f"{counted(len(tally.left), 'letter')} couldn't be redriven")


def _explain(screen: Screen, letter: Letter) -> None:
    screen.line(
        (f"{letter.topic}[{letter.partition}]@{letter.offset}", "bold"), (f"  written {_time(letter)}", "")
    )
    if not letter.context:
        screen.line(("  it has no header that says why it is here: no dead letter of Kafka's", "yellow"))
    rows = [(name, readable(value), meaning(name)) for name, value in letter.context.items()]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    for name, value, about in rows:
        screen.line(
            (f"  {name.ljust(widths[0])}  ", "cyan"), (value.ljust(widths[1]), ""), (f"  {about}", "dim")
        )
    for name, own in letter.own_headers:
        screen.line((f"  {name}: {readable(own)}", ""), ("  a header of the record", "dim"))
    if letter.has_copy:
        screen.line(("  key    ", "cyan"), (readable(letter.key), ""))
        screen.line(("  value  ", "cyan"), (readable(letter.value), ""))
    else:
        screen.line(("  neither key nor value came along: a redrive reads the record where it was", "dim"))


def _row(letter: Letter) -> tuple[object, ...]:
    return (
        letter.place,
        _time(letter),
        letter.origin,
        letter.group,
        letter.deliveries,
        None if letter.reason is None else readable(letter.reason.encode()),
    )


def _form(letter: Letter) -> dict[str, Any]:
    origin = letter.origin
    return {
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp": letter.timestamp,
        "source": None
        if origin is None
        else {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset},
        "group": letter.group,
        "deliveries": letter.deliveries,
        "reason": letter.reason,
        "context": {
            name: None if value is None else readable(value) for name, value in letter.context.items()
        },
        "headers": [[name, None if value is None else readable(value)] for name, value in letter.own_headers],
        "key": None if letter.key is None else readable(letter.key),
        "value": None if letter.value is None else readable(letter.value),
    }


def _time(letter: Letter) -> str:
    return iso_time(letter.timestamp).partition(".")[0].replace("T", " ")
