"""Workers that pause, are restarted and lose their dependency while functions hang: no record is archived untried.

`judging` says what is checked, and docs/reports/worker-restless.md has the figures.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import WorkQueue
from tests.integration.reporting import say, write_section
from tests.integration.restless_workers.judging import PROBLEMS, Judgement
from tests.integration.restless_workers.program import Scene
from tests.integration.restless_workers.running import HAD, LOCK, PINNED, Storm

pytestmark = [pytest.mark.kafka, pytest.mark.lengthy, pytest.mark.timeout(300)]

REPORT, TITLE = Path("worker-restless.md"), "Workers that pause, restart and lose their dependency"
SEEDS = (36, 37, 38)
LOCK_S = 2.0
PARTITIONS = 3
WINDOW = 1_000
MOST_PINNED_S = 40
"""A record whose `dead_letters` function hangs can't go before that has taken 30 s."""


@pytest.mark.release("embedded")
def test_short_storm(fresh_queue: FreshQueue, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judgement = prepared(fresh_queue, tmp_path, 36, 10.0).run()
    say(capsys, table([(36, judgement)]))
    check(judgement)


@pytest.mark.long
@pytest.mark.java
@pytest.mark.release("4.4.0", "embedded")  # their dead letters tell why a record was archived
@pytest.mark.timeout(1800)
def test_storms(fresh_queue: FreshQueue, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = []
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        runs.append((seed, prepared(fresh_queue, folder, seed, 40.0).run()))
        say(capsys, table(runs[-1:]))
    release = fresh_queue().broker.release
    broker = "The embedded broker" if release.count(".") == 1 else f"Kafka {release}"
    write_section(REPORT, TITLE, broker, table(runs))
    for _, judgement in runs:
        check(judgement)


def check(judgement: Judgement) -> None:
    for name in (*HAD, "paused", "hung", "held"):
        assert judgement.counts[f"disturbed: {name}"], f"the storm had no {name!r}"
    assert judgement.counts[PINNED] <= MOST_PINNED_S
    assert {kind: found[:5] for kind, found in judgement.problems.items() if found} == {}


def prepared(fresh_queue: FreshQueue, folder: Path, seed: int, lasts_s: float) -> Storm:
    queue: WorkQueue = fresh_queue(
        partitions=PARTITIONS,
        settings={
            LOCK: str(round(LOCK_S * 1000)),
            "share.session.timeout.ms": "4000",
            "share.heartbeat.interval.ms": "1000",
        },
    )
    broker, grave, window = queue.broker, None, 2_000
    if not queue.is_4_1:  # it has no such setting for groups
        broker.set_group_config(queue.group, {"share.partition.max.record.locks": str(WINDOW)})
        window = WINDOW
    urgent, dead = f"{queue.topic}-urgent", f"{queue.topic}-dead"
    broker.create_topic(urgent, PARTITIONS)
    broker.create_topic(dead, 1)
    if broker.release.startswith("4.4"):
        grave = f"dlq.{queue.topic}"
        broker.create_topic(grave, 1, settings={"errors.deadletterqueue.group.enable": "true"})
        broker.set_group_config(queue.group, {"errors.deadletterqueue.topic.name": grave})

    def configure(settings: dict[str, str]) -> None:
        broker.set_group_config(queue.group, settings)

    down = str(folder / "down")
    scene = Scene(broker.bootstrap, queue.group, queue.topic, urgent, dead, LOCK_S, down)
    return Storm(seed, scene, PARTITIONS, grave, folder, configure, lasts_s, window)


def table(runs: list[tuple[int, Judgement]]) -> str:
    names = sorted({name for _, judgement in runs for name in judgement.counts})
    rows = [(name, [judgement.counts[name] for _, judgement in runs]) for name in names]
    rows += [(f"**{kind}**", [len(judgement.problems[kind]) for _, judgement in runs]) for kind in PROBLEMS]
    head = [f"| seed | {' | '.join(str(seed) for seed, _ in runs)} |", f"|---|{'---:|' * len(runs)}"]
    return "\n".join(
        [*head, *(f"| {name} | {' | '.join(f'{number:,}' for number in found)} |" for name, found in rows)]
    )
