"""Jobs of the console: which may run, which are remembered, and what is written down."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.exceptions import HTTPException

from kshare.dead_letters.dead_letter import DeadLetter, Origin
from kshare.dead_letters.outcome import Fate, LetterOutcome
from kshare.errors import KshareError
from kshare.web.audit import AuditLog
from kshare.web.jobs import MOST_JOBS, MOST_OUTCOMES, MOST_RUNNING, Job, Jobs, JobState

pytestmark = pytest.mark.anyio


def a_letter(offset: int) -> DeadLetter:
    return DeadLetter("dlq.a", 0, offset, 0, None, None, {}, (), Origin("a", 1, 2))


LETTER = a_letter(7)


async def nothing(job: Job) -> None: ...


async def forever(job: Job) -> None:
    await anyio.sleep_forever()


async def start(jobs: Jobs, work: object = nothing, topic: str = "dlq.a") -> Job:
    return await jobs.start("ann", "redrive", topic, f"kshare-{topic}", "all", work)  # type: ignore[arg-type]


async def ended(job: Job) -> Job:
    with anyio.fail_after(10):
        while job.state is JobState.RUNNING:
            await anyio.sleep(0.001)
    return job


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def lines(path: Path) -> list[str]:
    return [entry["outcome"] for entry in entries(path)]


@pytest.fixture
def audit_log(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


@pytest.fixture
def jobs(audit_log: Path) -> Jobs:
    return Jobs(AuditLog(audit_log))


@pytest.mark.lengthy
async def test_a_job_ends_with_its_outcomes(jobs: Jobs, audit_log: Path) -> None:
    async def work(job: Job) -> None:
        job.note(LetterOutcome(LETTER, Fate.REDRIVEN, Origin("a", 1, 9)))
        job.note(LetterOutcome(a_letter(8), Fate.SKIPPED))
        job.note(LetterOutcome(a_letter(9), Fate.LEFT, reason="gone\x07"))

    async with jobs.running():
        job = await ended(await start(jobs, work))
    assert (job.state, job.problem) == (JobState.DONE, None)
    assert job.counts == {Fate.REDRIVEN: 1, Fate.SKIPPED: 1, Fate.LEFT: 1}
    assert [(outcome.place, outcome.origin, outcome.detail) for outcome in job.outcomes] == [
        ("0:7", "a[1]@2", "to a[1]@9"),
        ("0:9", "a[1]@2", "gone\\x07"),
    ]
    assert lines(audit_log) == ["begun", "done"]
    assert entries(audit_log)[-1]["counts"] == {"redriven": 1, "skipped": 1, "not redriven": 1}


async def test_each_letter_is_counted_once(jobs: Jobs, audit_log: Path) -> None:
    async def work(job: Job) -> None:
        job.note(LetterOutcome(a_letter(1), Fate.SKIPPED))
        job.note(LetterOutcome(a_letter(1), Fate.MOVED, Origin("dlq.a", 0, 9)))
        job.note(LetterOutcome(a_letter(2), Fate.LEFT, reason="gone"))
        job.note(LetterOutcome(a_letter(2), Fate.MOVED, Origin("dlq.a", 0, 10)))
        job.note(LetterOutcome(a_letter(3), Fate.FAILED, reason="lost"))
        job.note(LetterOutcome(a_letter(3), Fate.DROPPED))
        job.note(LetterOutcome(a_letter(4), Fate.SKIPPED))

    async with jobs.running():
        job = await ended(await start(jobs, work))
    assert job.counts == {Fate.MOVED: 1, Fate.LEFT: 1, Fate.DROPPED: 1, Fate.SKIPPED: 1}
    assert [(outcome.place, outcome.fate, outcome.detail) for outcome in job.outcomes] == [
        ("0:1", Fate.MOVED, "moved to dlq.a[0]@9"),
        ("0:2", Fate.LEFT, "gone; moved to dlq.a[0]@10"),
        ("0:3", Fate.DROPPED, ""),
    ]
    assert job.more_outcomes == 0
    assert sum(entries(audit_log)[-1]["counts"].values()) == 4


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (KshareError("no broker"), "no broker"),
        (ZeroDivisionError("secret"), "it ended with ZeroDivisionError"),
    ],
)
async def test_a_job_that_fails_says_why(jobs: Jobs, audit_log: Path, error: Exception, problem: str) -> None:
    async def work(job: Job) -> None:
        raise error

    async with jobs.running():
        job = await ended(await start(jobs, work))
        await ended(await start(jobs))
    assert job.state is JobState.FAILED
    assert job.problem is not None
    assert job.problem.startswith(problem)
    assert lines(audit_log)[1].startswith("failed: ")


async def test_a_job_is_stopped(jobs: Jobs, audit_log: Path) -> None:
    async with jobs.running():
        job = await start(jobs, forever)
        assert job.scope is not None
        job.scope.cancel()
        assert (await ended(job)).state is JobState.STOPPED
    assert lines(audit_log) == ["begun", "failed: KshareError: it was stopped"]


async def test_jobs_end_with_the_console(jobs: Jobs, audit_log: Path) -> None:
    async with jobs.running():
        await start(jobs, forever)
    assert lines(audit_log) == ["begun", "failed: KshareError: the console was stopped"]
    with pytest.raises(HTTPException, match="503"):
        await start(jobs, topic="dlq.b")


async def test_without_an_audit_log_nothing_is_done(tmp_path: Path) -> None:
    folder = tmp_path / "missing"
    folder.mkdir()
    jobs = Jobs(AuditLog(folder / "audit.log"))
    shutil.rmtree(folder)
    async with jobs.running():
        with pytest.raises(OSError, match="missing"):
            await start(jobs)
    assert jobs.all == []


async def test_dead_letters_of_a_topic_have_one_job_at_a_time(jobs: Jobs) -> None:
    async with jobs.running():
        await start(jobs, forever)
        with pytest.raises(HTTPException, match="job 1 is still at the dead letters"):
            await start(jobs)
        for number in range(MOST_RUNNING - 1):
            await start(jobs, forever, f"dlq.{number}")
        with pytest.raises(HTTPException, match="503"):
            await start(jobs, topic="dlq.z")


async def test_the_last_jobs_are_remembered(jobs: Jobs) -> None:
    async with jobs.running():
        running = await start(jobs, forever)
        for _ in range(MOST_JOBS + 3):
            await ended(await start(jobs, topic="dlq.b"))
        assert len(jobs.all) == MOST_JOBS
        assert jobs.find(running.id) is running
        with pytest.raises(HTTPException, match="404"):
            jobs.find("2")


async def test_outcomes_are_limited(jobs: Jobs) -> None:
    async def work(job: Job) -> None:
        for _ in range(MOST_OUTCOMES + 5):
            job.note(LetterOutcome(LETTER, Fate.DROPPED))

    async with jobs.running():
        job = await ended(await start(jobs, work))
    assert (len(job.outcomes), job.more_outcomes) == (MOST_OUTCOMES, 5)
