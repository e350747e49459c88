"""What `kshare dlq` shows: topics, dead letters, and the progress and result of a redrive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kshare.admin.routing import Router
from kshare.cli.cluster.connection import Cluster
from kshare.cli.dlq.dead_letter import DeadLetter, meaning, readable
from kshare.cli.dlq.read import accepts_dead_letters, bounds, letters, list_dead_letter_topics
from kshare.cli.dlq.redrive import PlannedRedrive, RedriveOutcome, check_target, plan_redrive, redrive
from kshare.cli.dlq.redrive_records import RedriveProgress, RedriveRequest
from kshare.cli.dlq.redriven import RedrivenLetters, default_group, settled_letters
from kshare.cli.dlq.selection import Selection
from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.progress_line import ProgressLine
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.table import show, show_json
from kshare.cli.terminal.times import iso_time
from kshare.cli.terminal.wording import counted
from kshare.errors import NotAuthorized

_HEADS = ["LETTER", "WRITTEN", "FROM", "GROUP", "TIMES", "REASON"]


def show_topics(cluster: Cluster, group: str | None, is_json: bool) -> None:
    found = cluster.run_routed(lambda router: list_dead_letter_topics(router, group))
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
        screen.line(("no dead-letter topics are marked as such", ""))
        hint = "before Kafka 4.4, topics can't be marked: kshare dlq show TOPIC shows the dead letters of one"
        screen.line((hint, "dim"))
    screen.done()


def show_letters(
    cluster: Cluster,
    topic: str,
    group: str,
    selection: Selection,
    max_letters: int | None,
    explain: bool,
    is_json: bool,
) -> None:
    """Show dead letters, and mark those that this group has redriven."""

    async def work(router: Router) -> tuple[list[DeadLetter], RedrivenLetters | None, str]:
        found: list[DeadLetter] = []
        firsts, ends = await bounds(router, topic)
        try:
            settled = await settled_letters(router, topic, group, firsts, ends)
        except NotAuthorized:
            settled = None
        async for letter in letters(router, topic, firsts, ends):
            if selection.wants(letter):
                found.append(letter)
                if len(found) == max_letters:
                    break
        problem = await _if_none_is_letter(router, topic, found)
        return [] if problem else found, settled, problem

    found, settled, problem = cluster.run_routed(work)
    redriven = [settled.has(one) if settled else None for one in found]
    screen = Screen()
    if is_json:
        pairs = zip(found, redriven, strict=True)
        show_json(screen, [{**_form(one), "redriven": is_done} for one, is_done in pairs])
    elif not found:
        screen.line((problem or "no matching dead letters", ""))
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
    cluster: Cluster, topic: str, group: str | None, request: RedriveRequest, is_dry_run: bool, is_json: bool
) -> None:
    check_target(topic, request.target)
    named = group or default_group(topic)
    screen = Screen()
    if is_dry_run:
        planned = cluster.run_routed(lambda router: plan_redrive(router, topic, named, request))
        if request.target is None:
            _require_a_letter(cluster, topic, [one.letter for one in planned])
        _show_plan(screen, planned, is_json)
        screen.done()
        return
    line = ProgressLine()
    try:
        outcome = cluster.run_routed(
            lambda router: redrive(
                router,
                cluster.options,
                topic,
                named,
                request,
                lambda progress: line.show(_progress_text(progress)),
            )
        )
    finally:
        line.done()
    if not is_json and not outcome.problem and not outcome.progress.redriven:
        _require_a_letter(cluster, topic, [letter for letter, _ in outcome.progress.left])
    _show_outcome(screen, outcome, named, is_json)
    screen.done()
    _complain(outcome, named, request)


async def _if_none_is_letter(router: Router, topic: str, found: Sequence[DeadLetter]) -> str:
    """A note if this is an ordinary topic. Empty if it has dead letters or no records, or may have dead letters."""
    if not found or any(one.is_dead_letter for one in found) or await accepts_dead_letters(router, topic):
        return ""
    return f"none of these {counted(len(found), 'record')} is a dead letter"


def _require_a_letter(cluster: Cluster, topic: str, found: Sequence[DeadLetter]) -> None:
    if problem := cluster.run_routed(lambda router: _if_none_is_letter(router, topic, found)):
        raise Failure(
            f"{problem}: they don't say where they came from; name a topic to write them to with --to"
        )


def _progress_text(progress: RedriveProgress) -> str:
    text = f"redriven {progress.redriven}, skipped {progress.passed_over}, not redriven {len(progress.left)}"
    return text + (
        f"; waiting for {counted(progress.waits_for, 'other member')}" if progress.waits_for else ""
    )


def _show_plan(screen: Screen, planned: Sequence[PlannedRedrive], is_json: bool) -> None:
    if is_json:
        rows = [{**_form(one.letter), "to": one.target, "problem": one.reason} for one in planned]
        return show_json(screen, rows)
    if not planned:
        return screen.line(("nothing to redrive", ""))
    rows_shown = [
        (
            one.letter.place,
            one.letter.origin,
            one.target if one.reason is None else f"not redriven: {one.reason}",
        )
        for one in planned
    ]
    show(screen, ["LETTER", "FROM", "TO"], rows_shown)
    count = sum(one.reason is None for one in planned)
    screen.line((f"{counted(count, 'dead letter')} would be redriven; nothing was changed", ""))
    return None


def _show_outcome(screen: Screen, outcome: RedriveOutcome, group: str, is_json: bool) -> None:
    progress = outcome.progress
    if is_json:
        form = {
            "group": group,
            "redriven": progress.redriven,
            "targets": progress.targets,
            "passed_over": progress.passed_over,
            "left": [{"letter": one.place, "reason": reason} for one, reason in progress.left],
            "come_again": progress.again,
            "is_complete": outcome.is_complete,
        }
        return show_json(screen, form)
    targets = ", ".join(f"{count} to {topic}" for topic, count in sorted(progress.targets.items()))
    screen.line(
        (f"{counted(progress.redriven, 'dead letter')} redriven{f': {targets}' if targets else ''}", "")
    )
    if progress.passed_over:
        screen.line((f"{counted(progress.passed_over, 'dead letter')} skipped", ""))
    if progress.again:
        screen.line(
            (
                f"{counted(progress.again, 'dead letter')} will be redelivered and redriven again: the lock was lost",
                "",
            )
        )
    for letter, reason in progress.left:
        screen.line((f"{letter.place} not redriven: {reason}", ""))
    return None


def _complain(outcome: RedriveOutcome, group: str, request: RedriveRequest) -> None:
    progress = outcome.progress
    if outcome.problem is not None:
        raise Failure(outcome.problem)
    if progress.last_chances:
        raise Failure(
            f"{counted(progress.last_chances, 'dead letter')} won't be delivered to group {group} again, because of "
            f"its delivery count limit; they stay in the topic: use another --group to redrive them"
        )
    if not outcome.is_complete:
        hint = (
            ""
            if request.settles_others or not progress.passed_over
            else ", or skip others permanently with --settle-others"
        )
        raise Failure(
            f"not all dead letters arrived: some may be locked by a run that was killed; try again in a minute{hint}"
        )
    if progress.left:
        raise Failure(f"{counted(len(progress.left), 'dead letter')} couldn't be redriven")


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
    if letter.has_copy:
        screen.line(("  key    ", "cyan"), (readable(letter.key), ""))
        screen.line(("  value  ", "cyan"), (readable(letter.value), ""))
    else:
        screen.line(("  no copy of key and value: a redrive reads the original record", "dim"))


def _row(letter: DeadLetter) -> tuple[object, ...]:
    return (
        letter.place,
        _time(letter),
        letter.origin,
        letter.group,
        letter.deliveries,
        None if letter.reason is None else readable(letter.reason.encode()),
    )


def _form(letter: DeadLetter) -> dict[str, Any]:
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


def _time(letter: DeadLetter) -> str:
    return iso_time(letter.timestamp).partition(".")[0].replace("T", " ")
