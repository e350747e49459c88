"""Runs `kshare consume`: prints records, then settles them.

It ends after the requested number of records, after too long without records, when the reader of its output is gone, or
by Ctrl-C. Records that were acquired but not printed are released, and redelivered to the group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import typer

from kshare.cli.cluster.connection import Cluster
from kshare.cli.cluster.known_names import require_topics
from kshare.cli.consume.consume_report import AckName, ConsumeReport
from kshare.cli.consume.no_records import explain_no_records
from kshare.cli.consume.output import RecordOutput
from kshare.cli.consume.prompt import prompt
from kshare.cli.consume.record_text import RecordFormat, Unreadable
from kshare.cli.terminal.failure import ClosedPipe, Failure, misuse
from kshare.cli.terminal.standard_error import say
from kshare.cli.terminal.stop_signals import StopSignals, stop_signals
from kshare.client.consumer import ShareConsumer
from kshare.client.record import ShareBatch, ShareRecord

_KAFKAS_GROUP = "console-share-consumer"
_LOOK_S = 0.2
_QUIET_S = 3.0
_AHEAD = 500
_SIGNALLED = 128
_PIECE = 16 * 1024
_LONGEST_PROMPT_S = 86_400


@dataclass(frozen=True, slots=True)
class ConsumeMode:
    word: AckName
    rejects_unreadable: bool
    most: int | None
    patience_s: float | None
    """None: no limit."""
    is_interactive: bool


def word(reject: bool, release: bool) -> AckName:
    if reject and release:
        raise typer.BadParameter("--reject and --release exclude each other")
    return "reject" if reject else "release" if release else "accept"


def consume(
    cluster: Cluster, group: str | None, topics: list[str], mode: ConsumeMode, form: RecordFormat
) -> None:
    report = ConsumeReport()
    # It holds few records: each that is acquired but not printed has lost one of its deliveries.
    options: dict[str, Any] = {**cluster.options, "max_records": 1, "acquire": "records"}
    options |= {"max_lease_seconds": _LONGEST_PROMPT_S} if mode.is_interactive else {}
    from_file = options.pop("group.id", None)
    options |= {"group": group or from_file or _KAFKAS_GROUP, "topics": topics}
    options |= {"acknowledgement": "explicit", "on_settled": report.on_outcome}

    async def work() -> None:
        with misuse():
            consumer = ShareConsumer(**options)
        await require_topics(consumer.config.net_settings(), topics)
        async with consumer:
            report.is_open = True
            showing = RecordPrinter(consumer, mode, form, report)
            try:
                await (showing.ask_for_each() if mode.is_interactive else showing.show_all())
            finally:
                showing.end()
            await consumer.commit()

    with stop_signals() as signals:
        try:
            anyio.run(_until_signalled, work, signals)
        finally:
            if report.is_open:
                say(report.text())
    problem = report.problem()
    if problem:
        raise Failure(problem)


class RecordPrinter:
    def __init__(
        self, consumer: ShareConsumer, mode: ConsumeMode, form: RecordFormat, report: ConsumeReport
    ) -> None:
        self._consumer = consumer
        self._mode = mode
        self._form = form
        self._books = report
        self._outlet = RecordOutput()
        self._shown: list[ShareRecord] = []
        """Printed, but not acknowledged yet."""
        self._ahead = 1
        self._last_at = anyio.current_time()
        self._is_hint_due = True

    async def show_all(self) -> None:
        while not self._is_enough:
            batch = await self._next()
            if batch is None:
                return
            await self._show(batch)
            self._last_at = anyio.current_time()

    async def ask_for_each(self) -> None:
        with prompt(self._consumer, self._books) as user:
            while not self._is_enough:
                batch = await self._next()
                if batch is None:
                    return
                for record in batch:
                    await self._outlet.write(self._line(record) or b"")
                    self._books.shown += 1
                    if not await user.decide(record) or self._is_enough:
                        return
                self._last_at = anyio.current_time()

    def settle(self) -> None:
        for record in self._shown:
            self._books.settle(record, self._mode.word)
        self._shown.clear()

    def end(self) -> None:
        """Acknowledge what was printed, and acquire nothing more."""
        self._consumer.pause(release=True)
        self.settle()

    async def _show(self, batch: ShareBatch) -> None:
        waiting: list[ShareRecord] = []
        data = bytearray()
        for record in batch:
            line = self._line(record)
            if line is not None:
                data += line
                waiting.append(record)
            if self._outlet.is_one_by_one or len(data) > _PIECE or self._is_enough_with(len(waiting)):
                await self._hand_over(waiting, data)
            if self._is_enough:
                return
        await self._hand_over(waiting, data)

    async def _hand_over(self, waiting: list[ShareRecord], data: bytearray) -> None:
        if waiting:
            await self._outlet.write(bytes(data))
            self._books.shown += len(waiting)
            self._shown += waiting
            if not self._is_enough:
                self.settle()
            waiting.clear()
            data.clear()

    def _line(self, record: ShareRecord) -> bytes | None:
        """The record's output; None if it couldn't be deserialized, and was rejected."""
        try:
            return self._form.write(record)
        except Unreadable as problem:
            if self._mode.is_interactive:
                return f"{problem}\n".encode()
            if not self._mode.rejects_unreadable:
                raise Failure(f"{problem}; use --reject-message-on-error to continue") from None
            say(f"{problem}: rejected")
            self._books.settle(record, "reject")
            self._books.unreadable += 1
            return None

    async def _next(self) -> ShareBatch | None:
        """The next batch; None after too long without records."""
        patience = self._mode.patience_s
        self._hold()
        while True:
            with anyio.move_on_after(_LOOK_S):
                return await self._consumer.next_batch()
            idle_s = anyio.current_time() - self._last_at
            if self._outlet.is_closed:
                raise ClosedPipe
            if self._is_hint_due and idle_s >= _QUIET_S:
                self._is_hint_due = False
                if self._books.shown == 0:
                    if hint := await explain_no_records(self._consumer.config):
                        say(hint)
                    continue  # records may have arrived meanwhile
            if patience is not None and idle_s >= patience:
                return None

    def _hold(self) -> None:
        """Hold one record at a time if the reader may stop after any line, and never more than was requested."""
        is_slow = self._mode.is_interactive or self._outlet.is_one_by_one
        remaining = _AHEAD if self._mode.most is None else self._mode.most - self._books.done
        ahead = 1 if is_slow else min(remaining, _AHEAD)
        if ahead != self._ahead:
            self._ahead = ahead
            self._consumer.set_max_records(ahead)

    @property
    def _is_enough(self) -> bool:
        return self._is_enough_with(0)

    def _is_enough_with(self, waiting: int) -> bool:
        return self._mode.most is not None and self._books.done + waiting >= self._mode.most


async def _until_signalled(work: Callable[[], Awaitable[None]], signals: StopSignals) -> None:
    """Run until done, or stopped by Ctrl-C or SIGTERM. Printed records are settled first, even after more signals."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as working:
            tasks.start_soon(signals.call, working.cancel)
            try:
                await work()
            except Exception as error:
                failure = error  # raised outside, so that it isn't put into an exception group
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if signals.first is not None:
        raise typer.Exit(_SIGNALLED + signals.first)
