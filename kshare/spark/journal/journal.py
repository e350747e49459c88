"""The journal of one query, as its runner uses it: opened once, then appended to, and trimmed.

    the checkpoint        | the store                          | result
    ----------------------+------------------------------------+------------------------------------------------------
    knows no journal      | is empty, or has a journal in      | a new journal
                          | which nothing is staged            |
    knows no journal      | has a journal with staged records  | JournalError: whose they are, and how to get them
                          | or one whose query is running      | back
    knows this journal    | has it, and the positions match    | continued: what isn't in the checkpoint is staged
    knows this journal    | is empty, or has another journal   | JournalError: the journal has vanished
    is older than what    | has it                             | JournalError: the checkpoint was restored from a copy
    the journal has done  |                                    |
    is newer than its end | has it                             | JournalError: frames have vanished

Decides whether a journal and a checkpoint belong together. `replay` decides what the journal contains.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from kshare.spark.journal.frames import Frame, encode
from kshare.spark.journal.replay import JournalContents, replay
from kshare.spark.journal.store import JournalError, JournalFenced, JournalStore, return_command
from kshare.spark.ranges import NEW_CHECKPOINT, JournalPosition, RecordRange
from kshare.surroundings import random_bytes

_CLAIMS = 3
"""How often to claim the journal, if an older runner writes between our reading and our claim."""


class Usage(NamedTuple):
    """What is staged."""

    records: int
    size: int
    """Bytes, as brokers sent them."""
    since_ms: int | None
    """When the oldest staged record was accepted, in milliseconds since 1970."""


class _Extent(NamedTuple):
    """A frame that isn't done."""

    number: int
    end: int
    size: int
    at: int


class Journal:
    """Create it with `open_journal`."""

    def __init__(self, store: JournalStore, contents: JournalContents, last: int) -> None:
        self.id = contents.journal
        self.place = store.place
        self.end = contents.end
        """The position after the last staged record."""
        self._store = store
        self._contents = contents
        self._done = contents.done
        self._done_written = contents.done
        self._last = last
        self._extents = deque(
            _Extent(number, frame.end, frame.size, frame.at) for number, frame in contents.frames
        )

    def staged(self, taken: int) -> tuple[RecordRange, ...]:
        """What a previous runner had staged, from this position on."""
        return self._contents.staged(taken)

    def position(self, taken: int) -> JournalPosition:
        return JournalPosition(self.id, self.place, taken)

    async def append(self, ranges: Sequence[RecordRange], size: int, now_ms: int) -> None:
        """Stage these ranges, which are in the order of topic id, partition and offset. Durable when this returns."""
        frame = self._frame(now_ms, size=size, ranges=tuple(ranges))
        await self._write(frame)
        self._extents.append(_Extent(self._last, frame.end, size, now_ms))

    def complete(self, position: int) -> None:
        """Records before this position are in completed micro-batches. The next frame tells so."""
        self._done = max(self._done, position)

    def usage(self, taken: int) -> Usage:
        """What is staged from this position on. The size of a frame counts until all of it is taken."""
        waiting = [extent for extent in self._extents if extent.end > taken]
        since = waiting[0].at if waiting else None
        return Usage(self.end - taken, sum(extent.size for extent in waiting), since)

    async def trim(self) -> None:
        """Delete what is done. The last frame stays, since it has the position."""
        while len(self._extents) > 1 and self._extents[0].end <= self._done:
            self._extents.popleft()
        if self._extents and self._done_written >= self._done:
            await self._store.trim(self._extents[0].number)

    async def tell_what_is_done(self, now_ms: int) -> None:
        """Write a frame for that, unless the last one tells it."""
        if self._done > self._done_written:
            await self._write(self._frame(now_ms))
            self._extents.append(_Extent(self._last, self.end, 0, now_ms))

    def _frame(self, now_ms: int, *, size: int = 0, ranges: tuple[RecordRange, ...] = ()) -> Frame:
        of = self._contents
        return Frame(
            journal=of.journal,
            writer=of.writer,
            group=of.group,
            member=of.member,
            start=self.end,
            done=self._done,
            at=now_ms,
            size=size,
            ranges=ranges,
        )

    async def _write(self, frame: Frame) -> None:
        with _explained(self.place):
            self._last = await self._store.append(encode(frame), self._last)
        self.end, self._done_written = frame.end, frame.done


async def open_journal(
    store: JournalStore,
    *,
    group: str,
    member: str,
    known: JournalPosition | None,
    is_running: Callable[[str, str], Awaitable[bool]],
    now_ms: int,
) -> Journal:
    """Take over the journal, which fences its older writer, or begin a new one.

    `known`: what the newest token in Spark's checkpoint says. `is_running`: whether a group has a member.
    """
    if known is not None and known.place != store.place:
        raise JournalError(
            f"the query's journal is in {known.place}, but its options name {store.place}: set the old one again"
        )

    async def read() -> tuple[JournalContents | None, list[tuple[int, bytes | None]]]:
        """What is in it, and all frames. From the beginning: others may have written and trimmed."""
        found = await store.read()
        contents = replay(found, store.place)
        require_match(contents, known, store.place)
        is_foreign = contents is not None and contents.member != member
        if contents is not None and is_foreign and await is_running(contents.group, contents.member):
            raise JournalError(
                f"the journal in {store.place} belongs to a running query of group {contents.group} (member "
                f"{contents.member}): each query needs its own. {_ANOTHER}"
            )
        return contents, found

    def claim(journal: str, start: int, done: int) -> Frame:
        return Frame(
            journal=journal,
            writer=writer,
            group=group,
            member=member,
            start=start,
            done=done,
            at=now_ms,
            is_claim=True,
        )

    await read()  # what doesn't match isn't claimed: its runner may go on
    writer = _new_id()
    await store.claim()
    with _explained(store.place):
        for _ in range(_CLAIMS):
            before, found = await read()
            last = found[-1][0] if found else -1
            frame = claim(before.journal, before.end, before.done) if before else claim(_new_id(), 0, 0)
            number = await store.append(encode(frame), last)
            if [index for index, _ in await store.read(last)] == [number]:
                break
            # The older runner has written in between. In a topic, it is fenced only now.
        else:
            raise JournalError(f"another runner keeps writing to the journal in {store.place}: stop it")
        contents = replay([*found, (number, encode(frame))], store.place)
        assert contents is not None, "it has the claim"
        if known is None and before is not None:
            frame = claim(_new_id(), 0, 0)
            number = await store.append(encode(frame), number)
            contents = replay([(number, encode(frame))], store.place)
            assert contents is not None, "it has the claim"
    return Journal(store, contents, number)


def _new_id() -> str:
    return random_bytes(16).hex()


async def nobody_is_running(group: str, member: str) -> bool:
    """For those who take a journal over whether its query is running or not: that one is fenced."""
    return False


def require_match(contents: JournalContents | None, known: JournalPosition | None, place: str) -> None:
    """Raise JournalError if the journal and the checkpoint don't belong together."""
    if known is None:
        if contents is not None and contents.staged_records:
            raise JournalError(
                f"the journal in {place} has {contents.staged_records:,} staged records of another query of group "
                f"{contents.group}, whose checkpoint this query doesn't have. They were accepted, but not "
                "processed. Start that query again with its checkpointLocation, or, if that is lost, write its "
                f"records to their topics again: `{return_command(place)}`, and begin with {NEW_CHECKPOINT}. {_ANOTHER}"
            )
        return
    if contents is None or contents.journal != known.journal:
        what = (
            "is empty" if contents is None else f"has the journal of another query (group {contents.group})"
        )
        raise JournalError(
            f"the query's journal has vanished: {place} {what}. Records that were accepted after the last logged "
            f"micro-batch may be lost. Restore it, or start the query with {NEW_CHECKPOINT}: then it continues with "
            "the records that the group delivers"
        )
    if known.taken < contents.done:
        staged = contents.staged_records
        first = f"run `{return_command(place)}`, which writes {staged:,} staged records to their topics again, and "
        raise JournalError(
            f"the checkpoint is older than the journal in {place}: it continues at position {known.taken:,}, and "
            f"records up to position {contents.done:,} are in complete micro-batches, or were written to their topics "
            "again by `kshare spark journal return`. If the checkpoint was restored from a copy, use the newest one. "
            f"Otherwise {first if staged else ''}start the query with {NEW_CHECKPOINT}"
        )
    if known.taken > contents.end or known.taken < contents.first:
        raise JournalError(
            f"frames of the journal in {place} have vanished: the checkpoint continues at position {known.taken:,}, "
            f"and the journal has {contents.first:,} to {contents.end:,}. Restore it, or start the query with "
            f"{NEW_CHECKPOINT}; records that were accepted after the last logged micro-batch may be lost"
        )


@contextmanager
def _explained(place: str) -> Iterator[None]:
    """Say what a JournalFenced of the store means."""
    try:
        yield
    except JournalFenced as error:
        raise JournalFenced(
            f"another runner has taken over the journal in {place} ({error}): this one stops, and has accepted nothing "
            "that isn't in the journal. Is the query running twice with the same checkpointLocation, or does another "
            "query have the same journalTopic or journalFolder?"
        ) from None


_ANOTHER = 'Or give this query a journal of its own: option("journalTopic", ...) with another name'
