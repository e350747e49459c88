"""A journal in both stores: continued by a new runner, two runners at once, and what doesn't belong together."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kshare.admin.record_deletion import delete_records_before
from kshare.admin.routing import Router
from kshare.errors import BrokerError, NotAuthorized
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import CreateTopicsRequest, CreateTopicsResponse
from kshare.protocol.messages.metadata_request import MetadataRequest
from kshare.protocol.messages.metadata_response import MetadataResponse
from kshare.spark.journal import folder_store, opened_store
from kshare.spark.journal.folder_store import FolderStore
from kshare.spark.journal.frames import JournalDamaged
from kshare.spark.journal.journal import Journal, open_journal
from kshare.spark.journal.store import JournalError, JournalFenced, JournalStore
from kshare.spark.journal.topic_store import TopicStore
from kshare.spark.ranges import JournalPosition, RecordRange
from kshare.testing import Broker

pytestmark = pytest.mark.anyio

TOPIC_ID = str(UUID(int=7))


def first_subfolder(folder: Path) -> Path:
    return next(folder.glob("frames-1-*"))


def span(first: int, last: int) -> RecordRange:
    return RecordRange("orders", TOPIC_ID, 0, first, last)


class Place:
    """Creates stores for the same place: one for each runner."""

    def __init__(self, router: Router, folder: Path | None) -> None:
        self.router, self.folder = router, folder

    async def store(self) -> JournalStore:
        if self.folder is not None:
            in_folder = FolderStore(self.folder)
            await in_folder.open()
            return in_folder
        in_topic = TopicStore(self.router, "journal")
        await in_topic.open(["orders"])
        return in_topic

    async def open(
        self,
        known: JournalPosition | None = None,
        *,
        member: str = "m",
        running: str = "",
        store: JournalStore | None = None,
        meanwhile: Callable[[], Awaitable[None]] | None = None,
    ) -> Journal:
        async def is_running(group: str, one: str) -> bool:
            return one == running

        store = store or await self.store()
        return await open_journal(
            store if meanwhile is None else Late(store, meanwhile),
            group="shipping",
            member=member,
            known=known,
            is_running=is_running,
            now_ms=1,
        )


@pytest.fixture(params=["topic", "folder"])
async def place(
    kshare_broker: Broker, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Place]:
    kshare_broker.create_topic("orders", 2)
    async with Pool(NetSettings.parse(kshare_broker.bootstrap)) as pool:
        await pool.bootstrap()
        folder = tmp_path / "a" / "journal" if request.param == "folder" else None
        yield Place(Router(pool, 20), folder)


class Late:
    """A store whose runner reads, and then takes long to claim. Meanwhile, others go on."""

    def __init__(self, store: JournalStore, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self.place, self.read = store.place, store.read
        self.append, self.trim = store.append, store.trim
        self._claim, self._meanwhile = store.claim, meanwhile

    async def claim(self) -> None:
        await self._meanwhile()
        await self._claim()


async def test_what_others_stage_and_trim_before_the_claim_is_staged(place: Place) -> None:
    """Found by a simulation: the other's claim was deleted, so its frames were taken for those of a fenced writer."""
    position = (await place.open()).position(0)

    async def meanwhile() -> None:
        other = await place.open(position)
        await other.append([span(0, 9)], 100, 1)
        await other.append([span(10, 19)], 100, 2)
        await other.trim()

    late = await place.open(position, meanwhile=meanwhile)
    assert late.staged(0) == (span(0, 9), span(10, 19))
    assert (await place.open(position)).staged(0) == (span(0, 9), span(10, 19))


async def test_a_journal_that_another_query_begins_before_the_claim(place: Place) -> None:
    """It was given the same id, so each of the two would have gone on with what the other had staged."""
    others: list[Journal] = []

    async def meanwhile() -> None:
        others.append(await place.open(member="another"))

    with pytest.raises(JournalError, match=r"belongs to a running query of group shipping .member another."):
        await place.open(running="another", meanwhile=meanwhile)
    ours = await place.open(meanwhile=meanwhile)
    assert ours.id not in [other.id for other in others]


async def test_a_new_runner_finds_what_is_staged(place: Place) -> None:
    one = await place.open()
    await one.append([span(0, 9)], 100, 1)
    await one.append([span(10, 19)], 100, 2)
    other = await place.open(one.position(15))
    assert other.staged(15) == (span(15, 19),)
    assert other.usage(15) == (5, 100, 2)
    assert other.usage(20) == (0, 0, None)


async def test_two_runners_at_once(place: Place) -> None:
    one = await place.open()
    await one.append([span(0, 9)], 0, 1)
    two = await place.open(one.position(0))
    with pytest.raises(
        JournalFenced, match=r"another runner has taken over the journal in .*: this one stops"
    ):
        await one.append([span(10, 19)], 0, 1)
    await two.append([span(30, 39)], 0, 1)
    three = await place.open(two.position(0))
    assert three.staged(0) == (span(0, 9), span(30, 39))


async def test_a_runner_is_fenced_even_if_the_claim_has_been_deleted(place: Place) -> None:
    one = await place.open()
    await one.append([span(0, 9)], 0, 1)
    two = await place.open(one.position(0))
    await two.append([span(10, 19)], 0, 1)
    two.complete(20)
    await two.tell_what_is_done(1)
    await two.trim()
    with pytest.raises(JournalFenced):
        await one.append([span(20, 29)], 0, 1)


@pytest.mark.lengthy
async def test_what_is_done_is_deleted(place: Place) -> None:
    one = await place.open()
    for first in range(0, 100, 10):
        await one.append([span(first, first + 9)], 0, 1)
    one.complete(75)
    await one.tell_what_is_done(1)
    await one.trim()
    assert len(await (await place.store()).read()) == 4
    again = await place.open(one.position(80))
    assert again.staged(80) == (span(80, 89), span(90, 99))


async def test_the_position_survives_if_nothing_is_staged(place: Place) -> None:
    one = await place.open()
    await one.append([span(0, 9)], 0, 1)
    one.complete(10)
    await one.tell_what_is_done(1)
    await one.trim()
    again = await place.open(one.position(10))
    assert (again.end, again.staged(10)) == (10, ())


async def test_a_checkpoint_that_is_older_than_the_journal(place: Place) -> None:
    one = await place.open()
    await one.append([span(0, 9)], 0, 1)
    one.complete(10)
    await one.append([span(10, 19)], 0, 1)
    with pytest.raises(
        JournalError, match=r"the checkpoint is older than the journal in .*restored from a copy"
    ):
        await place.open(one.position(5))


async def test_a_journal_that_has_vanished(place: Place) -> None:
    with pytest.raises(
        JournalError, match=r"the query's journal has vanished: .* is empty\. Records that were"
    ):
        await place.open(JournalPosition("j", (await place.store()).place, 0))


async def test_frames_that_have_vanished(place: Place) -> None:
    one = await place.open()
    await one.append([span(0, 9)], 0, 1)
    with pytest.raises(JournalError, match="continues at position 11, and the journal has 0 to 10"):
        await place.open(one.position(11))


async def test_deleted_frames(place: Place) -> None:
    one = await place.open()
    for first in range(0, 30, 10):
        await one.append([span(first, first + 9)], 0, 1)
    store = await place.store()
    await store.claim()
    numbers = [number for number, _ in await store.read()]
    await store.trim(numbers[2])
    with pytest.raises(JournalError, match=r"frames of the journal in .* have vanished"):
        await place.open(one.position(5))


async def test_a_journal_of_a_lost_checkpoint(place: Place) -> None:
    one = await place.open()
    await one.append([span(0, 9)], 0, 1)
    with pytest.raises(JournalError, match="has 10 staged records of another query of group shipping, whose"):
        await place.open(member="another")
    await one.append([span(10, 19)], 0, 1)  # wasn't fenced


async def test_a_journal_of_a_running_query(place: Place) -> None:
    one = await place.open()
    with pytest.raises(
        JournalError, match=r"belongs to a running query of group shipping .member m.: each query"
    ):
        await place.open(member="another", running="m")
    await one.append([span(0, 9)], 0, 1)


async def test_a_new_query_continues_the_place_of_a_finished_one(place: Place) -> None:
    one = await place.open()
    await one.append([span(0, 9)], 0, 1)
    one.complete(10)
    await one.tell_what_is_done(1)
    two = await place.open(member="another")
    assert two.id != one.id
    await two.append([span(3, 4)], 0, 1)
    assert (await place.open(two.position(0), member="another")).staged(0) == (span(3, 4),)
    with pytest.raises(JournalError, match="has the journal of another query"):
        await place.open(one.position(10))


async def test_a_new_query_never_has_the_id_of_another(place: Place) -> None:
    """Although nothing was staged yet: both checkpoints would claim what either of them stages later."""
    one = await place.open()
    two = await place.open(member="another")
    assert two.id != one.id
    await two.append([span(0, 9)], 0, 1)
    with pytest.raises(JournalError, match="has the journal of another query"):
        await place.open(one.position(0))


async def test_a_journal_that_was_moved(place: Place) -> None:
    one = await place.open()
    with pytest.raises(JournalError, match="is in topic elsewhere, but its options name"):
        await place.open(replace(one.position(0), place="topic elsewhere"))


async def test_foreign_bytes_in_the_journal(place: Place) -> None:
    store = await place.store()
    await store.claim()
    await store.append(b"something else", -1)
    with pytest.raises(
        JournalDamaged, match=r"is damaged at frame 0 \(it isn't a frame of a journal\): it isn't a j"
    ):
        await place.open()


@pytest.mark.parametrize("place", ["topic"], indirect=True)
async def test_a_topic_that_may_lose_frames(place: Place, kshare_broker: Broker) -> None:
    for name, partitions, settings, complaint in (
        ("wide", 3, {}, "the journal's topic wide has 3 partitions, and needs exactly one"),
        (
            "short",
            1,
            {"retention.ms": "1000"},
            "short has .*=.*, so frames could be deleted that are still needed",
        ),
    ):
        kshare_broker.create_topic(name, partitions, settings=settings)
        with pytest.raises(JournalError, match=complaint):
            await TopicStore(place.router, name).open(["orders"])


@pytest.mark.parametrize("place", ["topic"], indirect=True)
async def test_a_user_who_may_not_create_topics(place: Place, kshare_broker: Broker) -> None:
    """Brokers refuse this before they look whether there is one."""

    def refuse(response: CreateTopicsResponse) -> None:
        (row,) = response.topics
        if not row.error_code:
            cluster = kshare_broker.state.cluster
            cluster.delete_topic(cluster.topics[row.name])
        row.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    kshare_broker.faults.add(CreateTopicsRequest, times=None, change=refuse)
    kshare_broker.create_topic("journal", 1, settings={"retention.ms": "-1", "retention.bytes": "-1"})
    await place.store()
    with pytest.raises(NotAuthorized, match="lacks Create on topic missing"):
        await TopicStore(place.router, "missing").open(["orders"])


@pytest.mark.lengthy
@pytest.mark.parametrize("place", ["topic"], indirect=True)
async def test_a_new_topic_that_brokers_do_not_know_yet(place: Place, kshare_broker: Broker) -> None:
    def hide(response: MetadataResponse) -> None:
        for topic in response.topics:
            topic.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    fault = kshare_broker.faults.add(
        MetadataRequest,
        times=3,
        when=lambda request: any(topic.name == "journal" for topic in request.topics or ()),
        change=hide,
    )
    await place.store()
    assert fault.hits == 3


@pytest.mark.lengthy
@pytest.mark.parametrize("place", ["topic"], indirect=True)
async def test_a_topic_that_was_deleted_meanwhile(
    place: Place, kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kshare.producer.fenced._UNKNOWN_S", 0.5)
    one = await place.open()
    kshare_broker.delete_topic("journal")
    with pytest.raises(JournalError, match=r"couldn't be written: .*UNKNOWN_TOPIC"):
        await one.append([span(0, 9)], 0, 1)


@pytest.mark.parametrize("place", ["topic"], indirect=True)
async def test_a_topic_that_was_created_again(place: Place, kshare_broker: Broker) -> None:
    """An older runner would delete frames of the new topic, or add one that nobody can read."""
    store = await place.store()
    one = await place.open(store=store)
    await one.append([span(0, 9)], 0, 1)
    kshare_broker.delete_topic("journal")
    another = await place.open()
    await another.append([span(10, 19)], 0, 2)
    frames = await (await place.store()).read()
    one.complete(10)
    with pytest.raises(
        JournalError, match=r"couldn't be written: .*topic journal was deleted and created again"
    ):
        await one.tell_what_is_done(3)
    with pytest.raises(BrokerError, match=r"UNKNOWN_TOPIC_ID .the topic was created again"):
        await store.trim(2)
    assert await (await place.store()).read() == frames


@pytest.mark.parametrize("place", ["folder"], indirect=True)
async def test_a_folder_that_was_created_again(place: Place) -> None:
    """Its first subfolder had the name of the one of an older runner, which deleted frames in it."""
    assert place.folder is not None
    store = await place.store()
    one = await place.open(store=store)
    for first in (0, 10):
        await one.append([span(first, first + 9)], 0, 1)
    place.folder.rename(place.folder.with_name("elsewhere"))
    another = await place.open()
    for first in (0, 10):
        await another.append([span(first, first + 9)], 0, 1)
    frames = await (await place.store()).read()
    one.complete(20)
    with pytest.raises(JournalFenced):
        await one.tell_what_is_done(2)
    with pytest.raises(JournalError, match="couldn't be trimmed: No such file or directory"):
        await store.trim(2)
    assert await (await place.store()).read() == frames


async def test_a_runner_that_is_fenced_while_it_begins(place: Place) -> None:
    position = (await place.open()).position(0)
    store = await place.store()

    async def late(data: bytes, expected: int) -> int:
        await place.open(position)
        return await append(data, expected)

    append, store.append = store.append, late  # type: ignore[method-assign]
    with pytest.raises(
        JournalFenced, match=r"another runner has taken over the journal in .*: this one stops"
    ):
        await place.open(position, store=store)


async def test_a_runner_that_goes_on_while_its_successor_needs_no_journal(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it staged between a look and the claim was in no micro-batch, and nobody was told."""
    one = await place.open()
    await one.append([span(0, 9)], 0, 1)
    known = one.position(10)
    await opened_store.check_drained(place.router, known, 1)
    one = await place.open(known)

    async def late(store: JournalStore, **options: Any) -> Journal:
        await one.append([span(10, 19)], 0, 1)
        return await open_journal(store, **options)

    monkeypatch.setattr("kshare.spark.journal.opened_store.open_journal", late)
    with pytest.raises(JournalError, match="has 10 staged records, which would be lost"):
        await opened_store.check_drained(place.router, known, 1)
    with pytest.raises(JournalFenced):
        await one.append([span(20, 29)], 0, 1)


async def test_a_listing_of_a_folder_that_lacks_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large folders are listed in pieces while others write into them."""
    store = FolderStore(tmp_path)
    await store.claim()
    for number in range(3):
        await store.append(b"%d" % number, number - 1)
    real = Path.iterdir
    lists = 0

    def iterdir(path: Path) -> list[Path]:
        nonlocal lists
        lists += path.name.startswith("frames-")
        return [child for child in real(path) if lists != 1 or child.name != f"{1:020}.frame"]

    monkeypatch.setattr(Path, "iterdir", iterdir)
    assert [number for number, _ in await store.read()] == [0, 1, 2]
    assert lists == 2
    (first_subfolder(tmp_path) / f"{1:020}.frame").unlink()
    assert [number for number, _ in await store.read()] == [0, 2]  # it is damaged, as is said then


async def test_a_folder_is_claimed_by_one_runner_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that creates the first subfolder late would use a name again that an older runner still has."""
    monkeypatch.setattr(folder_store, "_CLAIMED_S", 0.001)
    with (tmp_path / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        with pytest.raises(
            JournalError, match=r"another runner has been claiming the journal in .* for long"
        ):
            await FolderStore(tmp_path).claim()
    await FolderStore(tmp_path).claim()
    assert first_subfolder(tmp_path).is_dir()


@pytest.mark.parametrize("place", ["topic"], indirect=True)
async def test_a_frame_without_a_known_number_deletes_nothing(place: Place) -> None:
    one = await place.open()
    await one.append([span(0, 9)], 0, 1)
    store = await place.store()
    await store.trim(-1)
    assert len(await store.read()) == 2


@pytest.mark.parametrize("place", ["folder"], indirect=True)
async def test_a_folder_that_cannot_be_used(place: Place, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match="couldn't be created: File exists"):
        await FolderStore(tmp_path / "file").open()
    full = FolderStore(Path("/dev/full/journal"))
    with pytest.raises(JournalError, match="couldn't be created"):
        await full.open()
    vanished = FolderStore(tmp_path / "vanished")
    await vanished.open()
    await vanished.claim()
    shutil.rmtree(tmp_path / "vanished")
    with pytest.raises(JournalError, match="couldn't be written: No such file or directory"):
        await vanished.append(b"frame", -1)


async def test_a_folder_that_is_claimed_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was an error of the file system."""
    older = FolderStore(tmp_path)
    await older.claim()
    await older.append(b"frame", -1)
    files_in = vars(folder_store)["_files"]

    def claimed_meanwhile(folder: Path) -> list[tuple[int, Path]]:
        if folder.name.startswith("frames-1") and folder.exists():
            folder.rename(tmp_path / "frames-2")
        return list(files_in(folder))

    monkeypatch.setattr(folder_store, "_files", claimed_meanwhile)
    assert await FolderStore(tmp_path).read() == [(0, b"frame")]
    with pytest.raises(JournalFenced, match=r"frames-1-\w+ was renamed"):
        await older.read()


@pytest.mark.parametrize("place", ["folder"], indirect=True)
async def test_a_torn_file_is_damage(place: Place) -> None:
    assert place.folder is not None
    one = await place.open()
    await one.append([span(0, 9)], 0, 1)
    last = max(place.folder.rglob("*.frame"))
    os.truncate(last, 20)
    with pytest.raises(
        JournalDamaged, match=r"is damaged at frame 1 \(its checksum is wrong.*\): `kshare spark journal r"
    ):
        await place.open(one.position(0))


@pytest.mark.parametrize("place", ["topic"], indirect=True)
async def test_deleting_records_beyond_the_end(place: Place) -> None:
    with pytest.raises(Exception, match=r"deleting records of orders\[0\] before offset 5"):
        await delete_records_before(place.router, "orders", 0, 5)
