"""Redrives or drops dead letters in a job of the console."""

from __future__ import annotations

from kshare.admin.routing import Router
from kshare.dead_letters.drop import DropProgress, DropRequest, drop
from kshare.dead_letters.letter_run import NOT_ALL_ARRIVED, RunOutcome, given_up_earlier
from kshare.dead_letters.redrive import redrive
from kshare.dead_letters.redrive_records import RedriveProgress, RedriveRequest
from kshare.errors import KshareError
from kshare.net.pool import Pool
from kshare.web.config import WebConfig
from kshare.web.console import LIMIT_S
from kshare.web.jobs import Job
from kshare.web.letter_choice import LetterChoice

_CLOSING_S = 0.7
"""For settling the last dead letters of a job that is stopped. The console mustn't hang if the cluster does."""


async def run_letter_job(config: WebConfig, action: str, choice: LetterChoice, job: Job) -> None:
    def on_progress(progress: RedriveProgress | DropProgress) -> None:
        job.waits_for, job.last_chances = progress.waits_for, progress.last_chances

    async with Pool(config.net) as pool:
        await pool.bootstrap(timeout=LIMIT_S)
        router = Router(pool, config.net.request_timeout)
        options = {**config.cluster, "close_timeout": _CLOSING_S}
        topic, tracker = choice.topic, choice.tracker
        if action == "drop":
            dropping = DropRequest(choice.selection, None)
            dropped = await drop(router, options, topic, tracker, dropping, on_progress, job.note)
            _require_all(tracker, dropped)
        else:
            asked = redrive_request(choice)
            redriven = await redrive(router, options, topic, tracker, asked, on_progress, job.note)
            _require_all(tracker, redriven)


def _require_all(tracker: str, outcome: RunOutcome[DropProgress] | RunOutcome[RedriveProgress]) -> None:
    """Raises KshareError if chosen dead letters weren't delivered, or the run ended early."""
    if outcome.problem is not None:
        raise KshareError(outcome.problem)
    if not outcome.is_complete:
        raise KshareError(NOT_ALL_ARRIVED)
    if outcome.progress.given_up:
        given_up = given_up_earlier(outcome.progress.given_up, tracker)
        raise KshareError(f"{given_up}. They stay in the topic: name another tracking group")


def redrive_request(choice: LetterChoice) -> RedriveRequest:
    return RedriveRequest(choice.selection, choice.target or None, None, None, settles_others=False)
