"""`kshare spark journal` and `kshare groups describe` with the journal of a query that won't be started again."""

from __future__ import annotations

import json
import re
from pathlib import Path

import anyio
import pytest

from kshare.admin.record_deletion import delete_records_before
from kshare.admin.routing import Router
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.testing import Broker
from tests.cli.running import Kshare, assert_refused
from tests.spark.driven import DrivenQuery, Stop

COUNT = 300


def without_ages(text: str) -> str:
    return re.sub(r" \d+ s\b", " - s", text)


class Abandoned(DrivenQuery):
    """A query that was stopped with staged records."""

    def __init__(self, broker: Broker, folder: Path | None) -> None:
        super().__init__(broker)
        self.folder = folder
        for _ in range(COUNT // 50):
            self.broker.produce(self.topic, [b"a value"] * 50, key=b"k", headers=[("own", b"header")])

        def stop(step: str, batch: int) -> None:
            if (step, batch) == ("read", 1):
                self.await_lag(0)
            if (step, batch) == ("committed", 1):
                raise Stop

        self.at = stop
        self.run(until=lambda: False, maxRecordsPerTrigger="40")

    def options(self) -> dict[str, str]:
        folder = {} if self.folder is None else {"journalFolder": str(self.folder)}
        return {**super().options(), "settle": "journal", **folder}

    @property
    def words(self) -> list[str]:
        return [self.journal_topic] if self.folder is None else ["--folder", str(self.folder)]

    @property
    def journal_topic(self) -> str:
        return f"kshare-journal-{self.group}.{json.loads(self.offset_log[0])['member']}"

    @property
    def unfinished(self) -> int:
        """Records that the journal doesn't know to be complete: the last micro-batch is among them."""
        return COUNT - len(self.sink[0])


@pytest.fixture(params=["topic", "folder"])
def query(
    kshare_broker: Broker, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Abandoned:
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", kshare_broker.bootstrap)
    return Abandoned(kshare_broker, tmp_path / "journal" if request.param == "folder" else None)


@pytest.mark.lengthy
def test_what_is_staged_is_shown_and_written_back(query: Abandoned, run: Kshare) -> None:
    shown = run("spark", "journal", "inspect", *query.words)
    assert shown.code == 0
    assert f"{query.topic} " in shown.out
    assert "not running" in shown.out
    (form,) = json.loads(run("spark", "journal", "inspect", *query.words, "--json").out)
    assert (form["staged"], form["group"], form["is_running"]) == (query.unfinished, query.group, False)

    planned = run("spark", "journal", "return", *query.words, "--dry-run")
    shown_again = run("spark", "journal", "inspect", *query.words).out
    assert (
        without_ages(planned.out)
        == without_ages(shown_again)
        + "staged records would be written to their topics again; nothing was changed\n"
    )
    assert len(query.broker.records(query.topic)) == COUNT

    done = run("spark", "journal", "return", *query.words)
    assert done.out == f"{query.unfinished} records written to their topics again\n"
    written = query.broker.records(query.topic)[COUNT:]
    assert len(written) == query.unfinished
    assert {(record.key, record.value, tuple(record.headers)) for record in written} == {
        (b"k", b"a value", (("own", b"header"),))
    }

    again = run("spark", "journal", "return", *query.words)
    assert again.out == "0 records written to their topics again\n"


async def delete_first(bootstrap: str, topic: str, count: int) -> None:
    async with Pool(NetSettings.parse(bootstrap)) as pool:
        await delete_records_before(Router(pool, 30.0), topic, 0, count)


@pytest.mark.lengthy
def test_what_retention_has_left_is_written_back(query: Abandoned, run: Kshare) -> None:
    anyio.run(delete_first, query.broker.bootstrap, query.topic, 100)
    done = run("spark", "journal", "return", *query.words)
    assert f"{COUNT - 100} records written to their topics again\n" in done.out
    assert f"{query.unfinished - (COUNT - 100)} offsets no longer had a record\n" in done.out


@pytest.mark.lengthy
@pytest.mark.parametrize("settle", ["journal", "sink"])
def test_the_query_cannot_go_on_after_that(query: Abandoned, run: Kshare, settle: str) -> None:
    run("spark", "journal", "return", *query.words)
    query.at = lambda step, batch: None
    query.folder = query.folder if settle == "journal" else None
    with pytest.raises(
        Exception,
        match=r"the checkpoint is older than .* start the query with a new checkpointLocation and a new",
    ):
        query.run(settle=settle)


@pytest.mark.lengthy
def test_what_precedes_damage_is_written_back(query: Abandoned, run: Kshare) -> None:
    if query.folder is None:
        query.broker.produce(query.journal_topic, [b"not a frame"])
    else:
        last = max(query.folder.rglob("*.frame"))
        last.with_stem(f"{int(last.stem) + 1:0{len(last.stem)}d}").write_bytes(b"not a frame")
    query.at = lambda step, batch: None
    with pytest.raises(Exception, match=r"is damaged at frame .*: `kshare spark journal return "):
        query.run()
    shown = " ".join(run("spark", "journal", "inspect", *query.words).out.split())
    assert "is damaged at frame" in shown
    done = " ".join(run("spark", "journal", "return", *query.words).out.split())
    assert f"{query.unfinished} records written to their topics again the journal is damaged at frame" in done
    assert len(query.broker.records(query.topic)) == COUNT + query.unfinished


@pytest.mark.lengthy
def test_one_journal_that_cannot_be_read_does_not_hide_others(query: Abandoned, run: Kshare) -> None:
    query.broker.create_topic("kshare-journal-notes")
    query.broker.produce("kshare-journal-notes", [b"a note"])
    shown = run("spark", "journal", "inspect")
    assert shown.code == 0
    said = " ".join(shown.out.split())
    assert (
        "topic kshare-journal-notes can't be read: the journal in topic kshare-journal-notes is damaged"
        in said
    )
    if query.folder is None:
        assert query.journal_topic in said
    forms = json.loads(run("spark", "journal", "inspect", "--json").out)
    assert "is damaged" in forms[-1]["error"]


@pytest.mark.lengthy
def test_the_journal_of_a_running_query_is_left_alone(query: Abandoned, run: Kshare) -> None:
    refusals: list[str] = []

    def look(step: str, batch: int) -> None:
        if step == "read" and not refusals:
            refusals.append(run("spark", "journal", "return", *query.words).err)

    query.at = look
    query.run()
    assert "is running (member" in refusals[0]
    query.expect(COUNT)


@pytest.mark.lengthy
def test_groups_say_what_is_staged(query: Abandoned, run: Kshare) -> None:
    said = run("groups", "describe", query.group).out
    (form,) = json.loads(run("groups", "describe", query.group, "--json").out)
    if query.folder is None:
        place = f"topic {query.journal_topic}"
        assert f"{query.unfinished} records of a Spark query staged in" in " ".join(said.split())
        assert form["staged"] == {place: query.unfinished}
    else:
        assert form["staged"] == {}  # only the driver's machine has the folder


@pytest.mark.lengthy
def test_groups_say_which_journal_cannot_be_read(query: Abandoned, run: Kshare) -> None:
    """Someone else has written to it."""
    if query.folder is not None:
        return
    topic = query.journal_topic
    query.broker.produce(topic, [b"not a frame"])
    said = " ".join(run("groups", "describe", query.group).out.split())
    assert f"the journal in topic {topic} can't be read, see `kshare spark journal inspect {topic}`" in said
    (form,) = json.loads(run("groups", "describe", query.group, "--json").out)
    assert form["staged"] == {f"topic {topic}": None}


def test_wrong_words(
    kshare_broker: Broker, run: Kshare, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", kshare_broker.bootstrap)
    assert run("spark", "journal", "inspect").out == "there are no journals\n"
    assert_refused(run("spark", "journal", "return"), 2, "name the journal's topic, or its --folder")
    assert_refused(run("spark", "journal", "inspect", "a", "--folder", "/b"), 2, "not both")
    kshare_broker.create_topic("orders", 1)
    assert_refused(run("spark", "journal", "inspect", "orders"), 1, "there is no journal in topic orders")
    assert_refused(run("spark", "journal", "inspect", "missing"), 1, "missing")
    assert_refused(
        run("spark", "journal", "return", "--folder", str(tmp_path)), 1, "there is no journal in folder"
    )
    kshare_broker.produce("orders", [b"a value"])
    assert_refused(run("spark", "journal", "inspect", "orders"), 1, "isn't a frame of a journal")
