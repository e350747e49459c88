"""What a redrive and a drop show alike: their progress, warnings, and how they ended."""

from __future__ import annotations

import logging
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from kshare.admin.routing import Router
from kshare.cli.cluster.connection import Cluster
from kshare.cli.cluster.known_names import explaining
from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.standard_error import ProgressLine, say
from kshare.dead_letters.letter_run import (
    NOT_ALL_ARRIVED,
    ProgressT,
    RunOutcome,
    RunProgress,
    given_up_earlier,
)
from kshare.dead_letters.letter_states import letter_states
from kshare.dead_letters.read import bounds, count_given_up
from kshare.dead_letters.selection import Selection
from kshare.wording import counted

T = TypeVar("T")


class _Warnings(logging.Handler):
    """Keeps what is logged during a run: it would break the progress line, and doesn't say that it is no failure."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._texts.append(record.getMessage())

    def show(self) -> None:
        for text in self._texts:
            say(f"warning: {' '.join(text.split())}")


def watched(
    cluster: Cluster,
    topics: Sequence[str],
    text: Callable[[ProgressT], str],
    run: Callable[[Router, Callable[[ProgressT], None]], Awaitable[T]],
) -> T:
    """Run a redrive or a drop, show how far it is, and then what it has warned of. SIGTERM ends it as Ctrl-C does.

    `topics`: those that the user has named.
    """
    line, warnings, log = ProgressLine(), _Warnings(), logging.getLogger("kshare")

    def show(progress: ProgressT) -> None:
        waits = progress.waits_for
        line.show(text(progress) + (f"; waiting for {counted(waits, 'other member')}" if waits else ""))

    log.addHandler(warnings)
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        return cluster.run_routed(lambda router: explaining(router, topics, run(router, show)))
    finally:
        signal.signal(signal.SIGTERM, before)
        log.removeHandler(warnings)
        line.done()
        warnings.show()


def form_of(outcome: RunOutcome[ProgressT]) -> dict[str, Any]:
    """The part of the JSON form that a redrive and a drop have in common."""
    progress = outcome.progress
    return {
        "passed_over": progress.passed_over,
        "duplicates": progress.duplicates,
        "moved": progress.moved,
        "last_chances": progress.last_chances,
        "given_up": progress.given_up,
        "come_again": progress.again,
        "is_complete": outcome.is_complete,
    }


def show_skipped(screen: Screen, progress: RunProgress, group: str, *, are_settled: bool = False) -> None:
    if progress.passed_over:
        used = f"{'it' if progress.passed_over == 1 else 'each'} used one of its deliveries to"
        effect = "settled for" if are_settled else used
        screen.line(f"{counted(progress.passed_over, 'dead letter')} skipped: {effect} group {group}")
    if progress.duplicates:
        duplicates = f"{counted(progress.duplicates, 'duplicate')} settled: moves that were interrupted had left copies"
        screen.line(duplicates)


def show_moved(screen: Screen, progress: RunProgress, group: str) -> None:
    if progress.moved:
        moved = f"{counted(progress.moved, 'dead letter')} written to the end of the topic again: group {group} has "
        screen.line(f"{moved}reached its delivery count limit for them, and would have archived them")


def note_of_given_up(cluster: Cluster, topic: str, group: str, selection: Selection) -> str:
    """For a dry run that has found nothing. Empty if the group has given up none of these dead letters."""

    async def work(router: Router) -> int:
        states = await letter_states(router, topic, group, *await bounds(router, topic))
        return await count_given_up(router, topic, selection, states)

    count = cluster.run_routed(work)
    return (
        f": group {group} has given up {counted(count, 'dead letter')}; use another --group" if count else ""
    )


def complain_of_unreadable(texts: Sequence[str]) -> None:
    """Raises Failure if there are any: what was shown isn't everything."""
    if texts:
        *others, last = texts
        for text in others:
            say(f"warning: {text}")
        raise Failure(last)


def complain(
    problem: str | None,
    progress: RunProgress,
    group: str,
    is_complete: bool,
    action: str,
    *,
    can_settle_others: bool = False,
) -> None:
    """Raises Failure if the run ended early, or left dead letters that it should have dealt with."""
    lost = _last_chances(progress.last_chances, group, action)
    if problem is not None:
        if lost:
            say(f"warning: {lost}")  # the next run can't say which they were
        raise Failure(problem)
    if lost:
        raise Failure(lost)
    if not is_complete:
        hint = ", or skip others permanently with --settle-others" if can_settle_others else ""
        raise Failure(NOT_ALL_ARRIVED + hint)
    if progress.given_up:
        raise Failure(f"{given_up_earlier(progress.given_up, group)}; {_way_out(progress.given_up, action)}")


def _last_chances(count: int, group: str, action: str) -> str:
    """Empty if there are none."""
    if not count:
        return ""
    return (
        f"{counted(count, 'dead letter')} won't be delivered to group {group} again, because of its delivery count "
        f"limit; {_way_out(count, action)}"
    )


def _way_out(count: int, action: str) -> str:
    they_stay, them = ("it stays", "it") if count == 1 else ("they stay", "them")
    return f"{they_stay} in the topic: use another --group to {action} {them}"
