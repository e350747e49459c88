"""What `kshare dlq redrive` shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshare.admin.routing import Router
from kshare.cli.cluster.connection import Cluster
from kshare.cli.cluster.known_names import explaining
from kshare.cli.dlq.letters_view import if_none_is_letter, letter_form
from kshare.cli.dlq.redrive_plan import RedrivePlan
from kshare.cli.dlq.run_view import (
    complain,
    complain_of_unreadable,
    form_of,
    note_of_given_up,
    show_moved,
    show_skipped,
    watched,
)
from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.table import show, show_json
from kshare.dead_letters.letter_run import RunOutcome
from kshare.dead_letters.letter_states import default_group
from kshare.dead_letters.other_readers import OtherReaders, other_readers, sentences, subscriptions
from kshare.dead_letters.redrive import PlannedRedrive, plan_redrive, redrive
from kshare.dead_letters.redrive_records import RedriveProgress, RedriveRequest
from kshare.dead_letters.unreadable import Unreadable
from kshare.wording import counted


def run_redrive(
    cluster: Cluster, topic: str, group: str | None, request: RedriveRequest, is_dry_run: bool, is_json: bool
) -> None:
    if request.target == topic:
        raise Failure(f"--to {topic} is the dead-letter topic itself: name another topic")
    named = group or default_group(topic)
    screen = Screen()
    if is_dry_run:
        unreadable = Unreadable()
        planned, readers = cluster.run_routed(
            lambda router: _planned(router, topic, named, request, unreadable, RedrivePlan(is_json))
        )
        if request.target is None and not planned.has_letter:
            _require_letters(cluster, topic, len(planned.rows) + planned.unshown)
        given_up = "" if planned.rows else note_of_given_up(cluster, topic, named, request.selection)
        _show_plan(screen, planned, readers, given_up, is_json)
        screen.done()
        complain_of_unreadable(unreadable.texts)
        if is_json and planned.unshown:
            raise Failure(
                f"{planned.unshown} more aren't shown, because they would take too much memory: choose some"
            )
        return
    outcome = watched(
        cluster,
        _topics(topic, request),
        _progress_text,
        lambda router, show: redrive(router, cluster.options, topic, named, request, show),
    )
    progress = outcome.progress
    if not (is_json or outcome.problem or progress.redriven or progress.has_left_letter):
        _require_letters(cluster, topic, progress.left_count)
    _show_outcome(screen, outcome, named, request, is_json)
    screen.done()
    _complain(outcome, named, request)


async def _planned(
    router: Router,
    topic: str,
    group: str,
    request: RedriveRequest,
    unreadable: Unreadable,
    plan: RedrivePlan,
) -> tuple[RedrivePlan, OtherReaders]:
    planned = plan_redrive(router, topic, group, request, unreadable)
    await explaining(router, _topics(topic, request), plan.fill(planned))
    return plan, other_readers(await subscriptions(router) if plan.written else {}, plan.written)


def _topics(topic: str, request: RedriveRequest) -> list[str]:
    """Those that the user has named."""
    return [topic] if request.target is None else [topic, request.target]


def _require_letters(cluster: Cluster, topic: str, count: int) -> None:
    if problem := cluster.run_routed(lambda router: if_none_is_letter(router, topic, count)):
        raise Failure(
            f"{problem}: they don't say where they came from; name a topic to write them to with --to"
        )


def _progress_text(progress: RedriveProgress) -> str:
    return f"redriven {progress.redriven}, skipped {progress.passed_over}, not redriven {progress.left_count}"


def _show_plan(
    screen: Screen, planned: RedrivePlan, readers: OtherReaders, given_up: str, is_json: bool
) -> None:
    if is_json:
        return show_json(screen, [_form(row, readers) for row in planned.rows])
    if not planned.rows:
        return screen.line(f"nothing to redrive{given_up}")
    rows_shown = [(row.letter.place, row.letter.origin, _destination(row)) for row in planned.rows]
    show(screen, ["LETTER", "FROM", "TO"], rows_shown)
    if planned.unshown:
        screen.line(f"{planned.unshown} more aren't shown")
    total, targets = planned.targets.total(), _by_target(planned.targets)
    screen.line(f"{counted(total, 'dead letter')} would be redriven{targets}; nothing was changed")
    for kind, count in planned.left.most_common():
        screen.line(f"{counted(count, 'dead letter')} would not be redriven: {kind}")
    for sentence in sentences(readers):
        screen.line(sentence)
    return None


def _form(planned: PlannedRedrive, readers: OtherReaders) -> dict[str, Any]:
    others = readers.get(planned.written_to or "", ())
    return letter_form(planned.letter) | {
        "to": planned.target,
        "problem": planned.reason,
        "is_duplicate": planned.is_duplicate,
        "other_groups": [other for other in others if other != planned.letter.group],
    }


def _destination(planned: PlannedRedrive) -> str | None:
    if planned.is_duplicate:
        return "a duplicate: settled without being written"
    return planned.target if planned.reason is None else f"not redriven: {planned.reason}"


def _show_outcome(
    screen: Screen,
    outcome: RunOutcome[RedriveProgress],
    group: str,
    request: RedriveRequest,
    is_json: bool,
) -> None:
    progress = outcome.progress
    if is_json:
        form = {
            "group": group,
            "redriven": progress.redriven,
            "targets": progress.targets,
            "left": [{"letter": letter.place, "reason": reason} for letter, reason in progress.left],
            "left_count": progress.left_count,
        }
        return show_json(screen, form | form_of(outcome))
    targets = _by_target(progress.targets)
    screen.line(f"{counted(progress.redriven, 'dead letter')} redriven{targets}")
    show_skipped(screen, progress, group, are_settled=request.settles_others)
    if progress.again:
        again = counted(progress.again, "dead letter")
        screen.line(f"{again} will be redelivered and redriven again: the lock was lost")
    for letter, reason in progress.left:
        screen.line(f"{letter.place} not redriven: {reason}")
    if more := progress.left_count - len(progress.left):
        screen.line(f"{more} more not redriven")
    show_moved(screen, progress, group)
    return None


def _by_target(counts: Mapping[str, int]) -> str:
    """Empty if there are none."""
    targets = ", ".join(f"{count} to {topic}" for topic, count in sorted(counts.items()))
    return f": {targets}" if targets else ""


def _complain(outcome: RunOutcome[RedriveProgress], group: str, request: RedriveRequest) -> None:
    progress = outcome.progress
    has_skipped = not request.settles_others and progress.passed_over > 0
    complain(outcome.problem, progress, group, outcome.is_complete, "redrive", can_settle_others=has_skipped)
    if progress.left_count:
        raise Failure(f"{counted(progress.left_count, 'dead letter')} couldn't be redriven")
