"""The storm: a query is killed repeatedly at every crash point, while brokers restart, and no record may be lost.

Driven without a JVM, so that each run takes a second; `test_stream` has tests with Spark. The report is
docs/reports/spark.md.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest
from kafka import KafkaProducer

from kshare.spark.options import Settle
from kshare.testing import Broker
from tests.spark import gone_back, storm_report
from tests.spark.real_storm.company import Company
from tests.spark.storm_driver import JOURNAL_STEPS, STEPS, SUSPENDED
from tools.kafka.cluster import Cluster
from tools.kafka.jars import install

PARTITIONS, LIVES = 4, 56
JOURNALED = 300_000
RUN_S = 600
GROUP, TOPIC = "storm", "storm"
LIMIT = "group.share.delivery.count.limit"
SETTINGS = {
    "group.share.session.timeout.ms": "6000",
    "group.share.min.session.timeout.ms": "6000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    LIMIT: "10",  # each crash costs acquired records a delivery; the default is 5
}
Where = tuple[int, int]


class Storm:
    """Runs the query, with crashes, and keeps what happened. `strike` stops and restarts a broker."""

    def __init__(
        self, bootstrap: str, folder: Path, settle: Settle, seed: int, *, release: str = "embedded"
    ) -> None:
        self.bootstrap, self.folder, self.settle = bootstrap, folder, settle
        self.release = release
        self.random = random.Random(seed)
        self.after = (1, 3)
        """The range from which the number of micro-batches before a crash is chosen at random."""
        self.crashes: Counter[str] = Counter()
        self.ended: list[str] = []
        """The last output of runs that weren't killed by us."""
        self.logged_before: dict[str, str] = {}
        """Batch → the crash that ended the run in which it was logged."""
        self.others: Mapping[Where, float] = {}
        self.options: dict[str, str] = {}
        """Further options of the query."""
        self.zombies: list[str] = []
        """The last output of runs that were suspended, and went on when another one had taken their place."""
        for name in ("offsets", "commits", "sink"):
            (folder / name).mkdir(parents=True)

    def live(self, crash: str | None) -> None:
        told = {
            "bootstrap": self.bootstrap,
            "group": GROUP,
            "topic": TOPIC,
            "settle": self.settle,
            "max": 1500,
            "crash": crash,
            "after": self.random.randrange(*self.after),
            "seed": self.random.randrange(1000),
            "options": self.options,
        }
        command = [sys.executable, "-m", "tests.spark.storm_driver", str(self.folder), json.dumps(told)]
        # Each run has another folder for temporary files: nothing that matters may be on the driver's own disk.
        with tempfile.TemporaryDirectory() as disk:
            run = subprocess.Popen(
                command, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": disk}
            )
            if crash == SUSPENDED and _is_suspended(run):
                self.crashes[crash] += 1
                self.live("read")
                run.send_signal(signal.SIGCONT)
            try:
                _, said = run.communicate(timeout=RUN_S)
            except subprocess.TimeoutExpired:
                run.kill()
                _, said = run.communicate()
                progress = self.folder / "progress"
                pytest.fail(f"a run didn't end: {progress.read_text() if progress.exists() else said}")
        last = (said.strip().splitlines() or [""])[-1] if run.returncode else "ended normally"
        if crash == SUSPENDED:
            self.zombies.append(last)
        elif run.returncode == -9:
            self.crashes[crash or ""] += 1
        else:
            self.ended.append(last)
        for path in (self.folder / "offsets").iterdir():
            self.logged_before.setdefault(path.name, crash or "none")

    def emitted(self) -> list[Where]:
        return [where for rows in self.batches().values() for where in rows]

    def batches(self) -> dict[str, list[Where]]:
        return {
            path.name: [(partition, offset) for partition, offset in json.loads(path.read_text())]
            for path in (self.folder / "sink").iterdir()
            if path.name.isdecimal()
        }

    def doubled(self) -> Counter[str]:
        """Records that another consumer processed too, by the crash after they were logged."""
        found: Counter[str] = Counter()
        for batch, rows in self.batches().items():
            found[self.logged_before[batch]] += len(self.others.keys() & set(rows))
        return found

    def rage(self, lives: int, strike: Callable[[], object] | None, steps: Sequence[str] = STEPS) -> None:
        order = [steps[number % len(steps)] for number in range(lives)]
        self.random.shuffle(order)
        for number, step in enumerate(order):
            if strike is not None and number % 8 == 4:
                striking = Thread(target=strike)
                striking.start()
                self.live(step)
                striking.join()
            else:
                self.live(step)
        (self.folder / "enough").touch()
        self.live(None)

    def row(self, where: str, total: int) -> list[str]:
        """The report's row."""
        emitted = self.emitted()
        lost = total - len({*emitted, *self.others})
        points = ", ".join(f"{step} {self.crashes[step]}" for step in self.crashes if step)
        doubled = (
            ", ".join(f"{step} {count}" for step, count in sorted(self.doubled().items()) if count) or "0"
        )
        shared = f"{len(self.others):,}" if self.others else "none"
        twice = storm_report.twice(gone_back.emitted_twice(emitted), self.unexplained())
        return [where, self.settle, f"{total:,}", shared, points, str(lost), twice, doubled]

    def unexplained(self) -> list[Where]:
        """Records that were emitted twice, though the brokers hadn't forgotten that they were accepted."""
        twice = gone_back.emitted_twice(self.emitted())
        if not gone_back.may_go_back(self.release):
            return sorted(twice)
        logged = sorted((self.folder / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        return gone_back.unexplained(twice, [json.loads(path.read_text()) for path in logged])

    def judge(self, total: int) -> None:
        emitted = self.emitted()
        assert len({*emitted, *self.others}) == total, "lost"
        assert not self.unexplained(), "emitted twice"
        assert not list(self.folder.glob("another-*")), "a replay yielded other rows"
        assert self.ended[-1] == "ended normally", self.ended[-3:]


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("settle", ["sink", "checkpoint"])
@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "in company"])
def test_the_embedded_broker(tmp_path: Path, settle: Settle, is_alone: bool) -> None:
    total = 240_000 if is_alone else 160_000
    # With fewer partitions than members, all members share each. Otherwise every member would have its own.
    partitions = PARTITIONS if is_alone else 1
    with Broker(topics={TOPIC: partitions}, nodes=3, settings=SETTINGS) as broker:
        broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        for number in range(total // 500):
            broker.produce(TOPIC, [b"x" * 20] * 500, partition=number % partitions)

        def strike() -> None:
            number = storm.random.randrange(1, 4)
            broker.stop_node(number)
            time.sleep(1)
            broker.start_node(number)

        storm = Storm(broker.bootstrap, tmp_path, settle, seed=7)
        if is_alone:
            storm.rage(LIVES, strike)
        else:
            company = Company(broker.bootstrap, GROUP, TOPIC, pause_s=0.005)
            storm.others = company.done
            with company.at_work():
                storm.rage(LIVES // 2, strike)
        storm_report.report(
            "driven", storm.row(f"embedded, 3 nodes{'' if is_alone else ', in company'}", total)
        )
        storm.judge(total)


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("store", ["topic", "folder"])
def test_a_journal_with_the_embedded_broker(tmp_path: Path, store: str) -> None:
    with Broker(topics={TOPIC: PARTITIONS}, nodes=3, settings=SETTINGS) as broker:
        broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        for number in range(JOURNALED // 500):
            broker.produce(TOPIC, [b"x" * 20] * 500, partition=number % PARTITIONS)

        def strike() -> None:
            number = storm.random.randrange(1, 4)
            broker.stop_node(number)
            time.sleep(1)
            broker.start_node(number)

        storm = Storm(broker.bootstrap, tmp_path, "journal", seed=7)
        rage_with_a_journal(storm, store, strike, "embedded, 3 nodes", lives=36)


@pytest.mark.long
@pytest.mark.java
@pytest.mark.kafka
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("store", ["topic", "folder"])
@pytest.mark.parametrize("release", ["4.3.1", "4.4.0"])
def test_a_journal_with_three_real_brokers(tmp_path: Path, release: str, store: str) -> None:
    install(release)
    with Cluster(release, 3, settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, replicas=3)
        cluster.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, linger_ms=20)
        for number in range(JOURNALED):
            producer.send(TOPIC, b"x" * 20, partition=number % PARTITIONS)
        producer.close()

        def strike() -> None:
            node = storm.random.choice(cluster.nodes)
            node.kill()
            cluster.restart(node)

        storm = Storm(cluster.bootstrap, tmp_path, "journal", seed=11, release=release)
        rage_with_a_journal(storm, store, strike, f"Kafka {release}, 3 nodes", lives=28)


def rage_with_a_journal(
    storm: Storm, store: str, strike: Callable[[], object], where: str, *, lives: int
) -> None:
    # With a cap, so that frames are appended until the end.
    storm.options = {"journalMaxRecords": "8000", "maxRecordsPerTrigger": "2000"}
    if store == "folder":
        storm.options["journalFolder"] = str(storm.folder / "journal")
    storm.rage(lives, strike, (*JOURNAL_STEPS, SUSPENDED))
    storm_report.report("driven", storm.row(f"{where}, journal in a {store}", JOURNALED))
    storm.judge(JOURNALED)
    assert storm.zombies
    assert "ended normally" not in storm.zombies


def _is_suspended(run: subprocess.Popen[str]) -> bool:
    """Wait until it stops, or ends."""
    while run.poll() is None:
        with suppress(OSError):
            if Path(f"/proc/{run.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
                return True
        time.sleep(0.02)
    return False


@pytest.mark.long
@pytest.mark.timeout(900)
def test_records_lost_by_repeated_crashes_are_dead_letters(tmp_path: Path) -> None:
    """With Kafka's default delivery limit: each crash before a micro-batch is logged costs a delivery."""
    total, grave = 20_000, "dlq.storm"
    with Broker(topics={TOPIC: PARTITIONS}, settings={**SETTINGS, LIMIT: "5"}) as broker:
        broker.create_topic(grave, settings={"errors.deadletterqueue.group.enable": "true"})
        broker.set_group_config(
            GROUP, {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": grave}
        )
        for number in range(total // 500):
            broker.produce(TOPIC, [b"x" * 20] * 500, partition=number % PARTITIONS)
        storm = Storm(broker.bootstrap, tmp_path, "sink", seed=5)
        storm.after = (0, 2)
        storm.rage(24, None, ["planned"])
        letters = [dict(letter.headers) for letter in broker.records(grave)]
    there = {(number, at) for number in range(PARTITIONS) for at in range(total // PARTITIONS)}
    lost = there - set(storm.emitted())
    assert lost
    assert {letter["__dlq.errors.delivery.count"] for letter in letters} == {b"5"}
    prefix = "__dlq.errors."
    assert lost == {
        (int(letter[prefix + "partition"] or b""), int(letter[prefix + "offset"] or b""))
        for letter in letters
    }
    assert len(storm.emitted()) == total - len(lost)


@pytest.mark.long
@pytest.mark.java
@pytest.mark.kafka
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("settle", ["sink", "checkpoint"])
@pytest.mark.parametrize("release", ["4.3.1", "4.4.0"])
def test_three_real_brokers(tmp_path: Path, release: str, settle: Settle) -> None:
    total = 200_000
    install(release)
    with Cluster(release, 3, settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, replicas=3)
        cluster.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, linger_ms=20)
        for number in range(total):
            producer.send(TOPIC, b"x" * 20, partition=number % PARTITIONS)
        producer.close()

        def strike() -> None:
            node = storm.random.choice(cluster.nodes)
            node.kill()
            cluster.restart(node)

        storm = Storm(cluster.bootstrap, tmp_path, settle, seed=11, release=release)
        storm.rage(LIVES // 2, strike)
        storm_report.report("driven", storm.row(f"Kafka {release}, 3 nodes", total))
        storm.judge(total)
