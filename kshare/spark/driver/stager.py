"""Writes acquired ranges to the query's journal, and has them accepted once they are durable.

While a frame is being written, the next ranges wait, and go into the frame after it: one append for each lock window,
however many partitions it has. No more is acquired meanwhile, because a broker that has no more locks to give would
keep the next fetch waiting, and the acknowledgements behind it.

Decides when to acquire more. `Custody` decides what a frame contains and what is accepted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

import anyio

from kshare.admin.routing import Router
from kshare.engine.notifier import Notifier
from kshare.errors import KshareError
from kshare.spark.driver.custody import Custody
from kshare.spark.driver.decisions import Decisions
from kshare.spark.existence import is_member
from kshare.spark.journal.inspection import all_journals
from kshare.spark.journal.journal import Journal, Usage, open_journal
from kshare.spark.journal.opened_store import check_retention, opened_store
from kshare.spark.journal.settings import JournalSettings, usual_topic
from kshare.spark.journal.store import return_command
from kshare.spark.options import ReadOptions
from kshare.spark.ranges import Token
from kshare.surroundings import monotonic, wall_time

log = logging.getLogger("kshare.spark")

_TRIM_S = 10.0


class Stager:
    """`open` it when Spark has passed the query's position, and let `run` run."""

    def __init__(
        self,
        options: ReadOptions,
        settings: JournalSettings,
        custody: Custody,
        apply: Callable[[Decisions], None],
        router: Router,
    ) -> None:
        """`apply` is called with what to accept."""
        self.failure: KshareError | None = None
        """Why nothing can be staged any more."""
        self.staged = Notifier()
        self._options = options
        self._settings = settings
        self._custody = custody
        self._apply = apply
        self._router = router
        self._journal: Journal | None = None
        self._size = 0
        self._acquired = Notifier()
        self._usage = Usage(0, 0, None)
        self._is_stopping = False
        self._writing = anyio.Lock()
        self._trim_at = 0.0

    async def open(self, token: Token) -> None:
        """Open the journal, and pass on what is staged after this token, the newest in Spark's log."""
        if self._journal is not None:
            return
        router = self._router
        await check_retention(router, self._options.topics, self._settings.max_age)
        group = self._options.group

        async def is_running(group: str, member: str) -> bool:
            with suppress(KshareError):  # queries work without the right to describe the group
                return await is_member(router, group, member)
            return False

        self._journal = await open_journal(
            await opened_store(
                router, self._settings, self._options.topics, usual_topic(group, token.member)
            ),
            group=group,
            member=token.member,
            known=token.journal,
            is_running=is_running,
            now_ms=_now_ms(),
        )
        taken = 0 if token.journal is None else token.journal.taken
        staged = self._journal.staged(taken)
        self._custody.adopt_journal(self._journal.position(taken), staged)
        self.note_usage()
        if token.journal is None:
            await self._warn_of_abandoned_journals()
        if staged:
            log.info("%s records are staged in %s", sum(map(len, staged)), self._journal.place)

    async def _warn_of_abandoned_journals(self) -> None:
        """This query is new. If it replaces one whose checkpoint is lost, nobody processes what that one has staged."""
        found, _ = await all_journals(self._router)
        for journal in found:
            if journal.contents.group == self._options.group and journal.ranges and not journal.is_running:
                log.warning(
                    "the journal in %s has %s staged records of another query of group %s, which isn't running. If it "
                    "won't be started again, write them to their topics again: `%s`",
                    journal.place,
                    f"{sum(map(len, journal.ranges)):,}",
                    self._options.group,
                    return_command(journal.place),
                )

    @property
    def max_records(self) -> int:
        return self._settings.max_records

    @property
    def has_room(self) -> bool:
        """Whether more may be acquired now."""
        return (
            not self.is_full and not self._custody.waiting and self.failure is None and not self._is_stopping
        )

    @property
    def is_full(self) -> bool:
        """Whether as much is staged as may be, so that nothing more is acquired before a micro-batch takes it."""
        records, size, since = self._usage
        return (
            records >= self._settings.max_records
            or size >= self._settings.max_bytes
            or (since is not None and _now_ms() - since >= 1000 * self._settings.max_age)
        )

    def readings(self) -> dict[str, int]:
        """The numbers that Spark shows in the query's progress."""
        records, size, since = self._usage
        age = 0 if since is None else max(0, _now_ms() - since)
        return {"staged": records, "stagedBytes": size, "stagedForMs": age}

    def on_acquired(self, size: int) -> None:
        """Ranges were acquired; their records have this many bytes."""
        self._size += size
        self._acquired.send()

    def complete(self, token: Token) -> None:
        """The micro-batch of this token is complete."""
        if self._journal is not None and token.journal is not None:
            self._journal.complete(token.journal.taken)
        self.wake()

    def wake(self) -> None:
        """There may be something to append: Spark's log has a token that knows the journal."""
        self._acquired.send()

    async def run(self) -> None:
        """Append until this is stopped or cancelled, or an append fails."""
        try:
            while not self._is_stopping:
                acquired = self._acquired.next()
                async with self._writing:
                    if not self._is_stopping:
                        await self._append()
                        await self._tell_what_is_done()
                        await self._trim()
                if not self._custody.waiting:
                    await acquired.wait()
        except KshareError as error:
            log.error("records can no longer be staged: %s", error)
            self.failure = error
            self.staged.send()

    async def stop(self) -> None:
        """Begin no further append, and wait for the one that is under way."""
        self._is_stopping = True
        async with self._writing:
            pass

    async def close(self) -> None:
        """Write down what is done, so that nothing seems to be staged that isn't."""
        if self._journal is None or self.failure is not None:
            return
        try:
            await self._journal.tell_what_is_done(_now_ms())
            await self._journal.trim()
        except KshareError as error:
            log.warning(
                "the journal in %s doesn't yet say which records are done: %s", self._journal.place, error
            )

    async def _append(self) -> None:
        while self._journal is not None and (frame := self._custody.next_frame()):
            size, self._size = self._size, 0
            await self._journal.append(frame, size, _now_ms())
            self.note_usage()
            self._apply(self._custody.appended(frame))
            self.staged.send()

    async def _tell_what_is_done(self) -> None:
        """Otherwise, an older copy of the checkpoint wouldn't be recognized as one."""
        if self._journal is not None:
            await self._journal.tell_what_is_done(_now_ms())

    async def _trim(self) -> None:
        """What can't be deleted stays, and is tried again."""
        if self._journal is None or monotonic() < self._trim_at:
            return
        self._trim_at = monotonic() + _TRIM_S
        try:
            await self._journal.trim()
        except KshareError as error:
            log.warning(
                "completed records can't be deleted from the journal in %s: %s", self._journal.place, error
            )

    def note_usage(self) -> None:
        """Records were staged, or a token was made of some."""
        position = self._custody.journal
        if self._journal is not None and position is not None:
            self._usage = self._journal.usage(position.taken)


def _now_ms() -> int:
    """Wall-clock time, since frames outlive this process."""
    return int(wall_time() * 1000)
