"""The storm over a real Spark: no record is lost, whatever is killed at any crash point that the guide names.

The driver, the source's runner, workers, executors and brokers are killed, and tasks and sinks fail. The report is
docs/reports/spark.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kshare.spark.options import Settle
from tests.spark import storm_report
from tests.spark.real_storm.judging import Verdict, judge
from tests.spark.real_storm.places import place
from tests.spark.real_storm.storm import SETTINGS, Storm

TOTAL, JOURNALED = 40_000, 300_000
LOCAL, CLUSTER = "local[2,3]", "local-cluster[2,1,1024]"
ALONE, IN_COMPANY = "alone", "in company"
RUNS: list[tuple[str, str, Settle, str]] = [
    ("embedded", LOCAL, "sink", ALONE),
    ("embedded", LOCAL, "sink", IN_COMPANY),
    ("embedded", CLUSTER, "checkpoint", IN_COMPANY),
    ("4.3.1", LOCAL, "checkpoint", IN_COMPANY),
    ("4.3.1", CLUSTER, "sink", ALONE),
    ("4.4.0", CLUSTER, "checkpoint", IN_COMPANY),
    ("4.4.0", LOCAL, "sink", ALONE),
]
JOURNAL_RUNS = [
    ("embedded", LOCAL, "topic"),
    ("embedded", LOCAL, "folder"),
    ("4.3.1", CLUSTER, "topic"),
    ("4.4.0", LOCAL, "topic"),
]
"""Each takes five minutes on a quiet machine."""


@pytest.mark.long
@pytest.mark.java
@pytest.mark.kafka
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    ("where", "master", "settle", "group"),
    [pytest.param(*run, id="-".join((run[0], run[1].partition("[")[0], *run[2:]))) for run in RUNS],
)
def test_a_storm(tmp_path: Path, where: str, master: str, settle: Settle, group: str) -> None:
    is_alone = group == ALONE
    with place(where, SETTINGS) as brokers:
        seed = f"{where} {master} {settle} {is_alone}"
        storm = Storm(
            brokers, tmp_path, master=master, settle=settle, is_alone=is_alone, total=TOTAL, seed=seed
        )
        storm.rage()
        verdict = judge(storm)
    report(storm, verdict)
    assert not verdict.failures
    assert not verdict.lost
    assert not verdict.unexplained
    assert verdict.lag == 0
    assert not verdict.doubled_after_confirmed


@pytest.mark.long
@pytest.mark.java
@pytest.mark.kafka
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(("where", "master", "store"), JOURNAL_RUNS)
def test_a_storm_over_a_journal(tmp_path: Path, where: str, master: str, store: str) -> None:
    # With a cap, so that frames are appended until the end.
    options = {"maxRecordsPerTrigger": "5000", "journalMaxRecords": "20000"}
    if store == "folder":
        options["journalFolder"] = str(tmp_path / "journal")
    with place(where, SETTINGS) as brokers:
        storm = Storm(
            brokers,
            tmp_path,
            master=master,
            settle="journal",
            is_alone=True,
            total=JOURNALED,
            seed=f"{where} {master} {store}",
            options=options,
        )
        storm.rage()
        verdict = judge(storm)
    which = [f"{storm.place.name}, 3 nodes", f"`{master}`", f"in a {store}", f"{verdict.total:,}"]
    storm_report.report("journal", [*which, *verdict.journal_cells()])
    assert not verdict.failures
    assert not verdict.lost
    assert not verdict.unexplained
    assert verdict.lag == 0


def report(storm: Storm, verdict: Verdict) -> None:
    group = "the query alone" if storm.is_alone else IN_COMPANY
    count = f"{verdict.total:,}" + ("" if storm.is_alone else f", {verdict.by_another:,} by the other")
    which = [f"{storm.place.name}, 3 nodes", f"`{storm.master}`", storm.settle, group]
    storm_report.report("spark", [*which, count, *verdict.cells()])
