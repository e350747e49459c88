"""From a share group to a topic without a jar, killed ten times: nothing is lost, and nothing doubled in transactions.

The report is docs/reports/spark-sink.md.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from kshare.testing import Broker
from tests.spark.queries import eventually
from tests.spark.shared_topic import SharedTopic
from tests.spark.sink import kills_report
from tests.spark.sink.killed_query import A_SEND, PATIENCE_S, KilledQuery, Victim

RECORDS = 2_000
VICTIMS: list[Victim] = [
    "worker",
    "driver",
    "runner",
    "worker",
    "driver",
    "runner",
    "worker",
    "worker",
    "driver",
    "runner",
]
BATCH = 50 + 2 * A_SEND
"""The most rows of a micro-batch: producer batches are taken whole."""


@pytest.mark.long
@pytest.mark.java
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("is_exact", [True, False], ids=["exactly-once", "at-least-once"])
def test_a_stream_that_is_killed_ten_times(orders_broker: Broker, tmp_path: Path, is_exact: bool) -> None:
    topics = SharedTopic(orders_broker)
    markers = f"{topics.topic}-markers"
    query = KilledQuery(topics, tmp_path, {"exactlyOnceTopic": markers} if is_exact else {})
    for at in range(0, RECORDS, A_SEND):
        values = [f"order {at + number}".encode() for number in range(A_SEND)]
        orders_broker.produce(topics.topic, values, partition=at // A_SEND % 2)
    random = Random(23)
    with query.running():
        for victim in VICTIMS:
            query.kill(victim, random)
        eventually(lambda: topics.lag() == 0, "all is accepted", patience=PATIENCE_S)
    found = query.shipments()
    wanted = {f"{topics.topic}/{number}/{at}" for number in range(2) for at in range(RECORDS // 2)}
    doubled = sum(count - 1 for count in found.values())
    lost = wanted - set(found)
    mode = "`exactlyOnceTopic`" if is_exact else "at least once"
    killed = Counter(VICTIMS)
    kills_report.report(
        [mode, RECORDS, *(killed[each] for each in ("driver", "runner", "worker")), len(lost), doubled]
    )
    assert not lost
    assert set(found) == wanted
    assert doubled <= (0 if is_exact else len(VICTIMS) * BATCH)
