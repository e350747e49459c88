"""Blocking and async consumers in one group, killed and restarted, with damaged, lost and late responses.

`judging` says what is checked, and docs/reports/consumer-storm.md has the figures.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kshare.protocol.messages import MetadataRequest
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from tests.helpers.plain_client import plain_client
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import WorkQueue
from tests.integration.consumer_storm.defects import DEFECTS
from tests.integration.consumer_storm.faulty_proxies import FaultyProxies
from tests.integration.consumer_storm.judging import Judgement
from tests.integration.consumer_storm.report import table
from tests.integration.consumer_storm.running import Plan, Storm
from tests.integration.reporting import say, write_section

pytestmark = [pytest.mark.kafka, pytest.mark.lengthy, pytest.mark.timeout(300)]

REPORT, TITLE = Path("consumer-storm.md"), "A storm of blocking and async consumers in one group"
LOCK = "share.record.lock.duration.ms"
SEEDS = (35, 36, 37)
DEAD_LETTERS_SINCE = "4.4"
_planted: dict[str, str] = {}


@pytest.mark.release("embedded")
def test_short_storm(fresh_queue: FreshQueue, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storm = prepared(fresh_queue, tmp_path, Plan(seed=34, lasts_s=20.0))
    judgement = storm.run()
    say(capsys, table([(storm, judgement)]))
    check(storm, judgement)


@pytest.mark.long
@pytest.mark.java
@pytest.mark.timeout(1800)
def test_storms(fresh_queue: FreshQueue, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = []
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        storm = prepared(fresh_queue, folder, Plan(seed=seed, lasts_s=30.0))
        runs.append((storm, storm.run()))
        say(capsys, table(runs[-1:]))
    release = fresh_queue().broker.release
    broker = "The embedded broker" if release.count(".") == 1 else f"Kafka {release}"
    write_section(REPORT, TITLE, broker, table(runs))
    for storm, judgement in runs:
        check(storm, judgement)


@pytest.mark.release("embedded")
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found(
    fresh_queue: FreshQueue,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
    defect: str,
) -> None:
    """The storm ends as soon as it is found."""
    plant, kind = DEFECTS[defect]
    plan = Plan(seed=35, lasts_s=60.0, kinds=("asyncio", "threads"), defect=defect, ends_at=kind)
    storm = prepared(fresh_queue, tmp_path, plan)
    judgement = storm.run()
    say(capsys, f"{defect}: {dict(judgement.problems)}"[:1000])
    assert judgement.problems[kind], f"{defect} wasn't found in {storm.took_s:.0f} s"
    if request.config.getoption("--long"):
        what = " ".join(str(plant.__doc__).split())
        example = judgement.problems[kind][0].partition(", by ")[0]
        _planted[defect] = f"| {what} | {kind} | {storm.took_s:.0f} | {example} |"
        head = "| planted | found as | seconds | the first case: partition, offset |\n|---|---|---:|---|"
        write_section(
            REPORT, TITLE, "Planted defects, embedded broker", "\n".join([head, *_planted.values()])
        )


def check(storm: Storm, judgement: Judgement) -> None:
    missing = storm.missing()
    assert not missing, "the storm hasn't had all that it is to have"
    assert {kind: found[:5] for kind, found in judgement.problems.items() if found} == {}


def prepared(fresh_queue: FreshQueue, folder: Path, plan: Plan) -> Storm:
    queue = fresh_queue(
        partitions=plan.partitions,
        settings={
            LOCK: str(round(plan.lock_s * 1000)),
            "share.session.timeout.ms": "4000",
            "share.heartbeat.interval.ms": "1000",
        },
    )
    broker, grave = queue.broker, None
    if broker.release.startswith(DEAD_LETTERS_SINCE):
        grave = f"dlq.{queue.topic}"
        broker.create_topic(grave, 1, settings={"errors.deadletterqueue.group.enable": "true"})
        broker.set_group_config(queue.group, {"errors.deadletterqueue.topic.name": grave})
    targets = []
    for address in broker.bootstrap.split(","):
        host, _, port = address.rpartition(":")
        targets.append((host, int(port)))
    proxies = FaultyProxies(topic_id(queue, targets[0]), Random(plan.seed), plan.lock_s, targets=targets)

    def lengthen_locks() -> None:
        broker.set_group_config(queue.group, {LOCK: "20000"})

    places = (broker.bootstrap, queue.group, queue.topic, grave)
    return Storm(plan, *places, not queue.is_4_1, folder, proxies, lengthen_locks)


def topic_id(queue: WorkQueue, address: tuple[str, int]) -> bytes:
    with plain_client(address) as client:
        return client.ask(MetadataRequest([MetadataRequestTopic(name=queue.topic)])).topics[0].topic_id
