"""Begins and ends a writer's transactions, each in a task of the writer: a caller that is cancelled doesn't cancel it.

A commit that was sent can't be taken back, so its caller waits for the outcome even if cancelled. If it leaves all the
same, as after Ctrl-C, the next transaction begins when the end of this one is over.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
from anyio.abc import TaskGroup

from kshare.client.background import wait_uncancelled
from kshare.errors import CommitUnknown, KshareError, ProducerFenced
from kshare.producer.sender import BatchSender
from kshare.producer.settings import WriterSettings
from kshare.producer.transaction_state import Phase, Transaction

log = logging.getLogger("kshare.producer")

_CLOSED = "the producer was closed before the transaction had ended"


class TransactionRunner:
    """`drain` returns when the outcome of everything that was enqueued is known."""

    def __init__(
        self, sender: BatchSender, settings: WriterSettings, drain: Callable[[], Awaitable[None]]
    ) -> None:
        self._sender = sender
        self._link = sender.link
        self._limit = settings.close_timeout
        self._drain = drain
        self._step: _Step | None = None
        """The last begin or end."""
        self._is_begun = False
        """Between the begin of a transaction and the start of its end."""

    # --- what is written belongs to which transaction

    @property
    def current(self) -> Transaction | None:
        """The transaction that records are added to; None if there is none."""
        return self._link.state.current if self._link.state.phase is Phase.OPEN else None

    @property
    def problem(self) -> str:
        """Why nothing can be added."""
        if self._link.state.current is not None:
            return "the transaction is being ended: write within the next one"
        return "a producer with a transactional id writes in transactions: call it within `producer.transaction()`"

    # --- begin and end

    async def begin(self, tasks: TaskGroup) -> None:
        """Raises if a transaction is open. If the last one is still being ended, waits for that."""
        if self._is_begun:
            raise KshareError("a transaction is open already: a producer has one at a time")
        self._is_begun = True
        try:
            while self._step is not None:
                await self._step.done.wait()
                self._forget(self._step)
            if self._link.state.needs_identity:
                step = self._start(tasks, self._fence)
                await step.done.wait()  # if this is cancelled, the next transaction waits for it
                step.result()
        except BaseException:
            self._is_begun = False
            raise
        self._sender.backlog.begin_transaction()
        self._link.begin()

    async def commit(self, tasks: TaskGroup) -> None:
        """Commit what was written. Raises if that fails, or if a record wasn't written; then it is aborted."""
        transaction = self._link.state.current
        self._require_begun(transaction)
        self._link.state.close()
        try:
            await self._drain()
            self._require_begun(transaction)
            if self._sender.backlog.failed is not None:
                self._sender.backlog.failed.result()
        except BaseException:
            await self.abort(tasks)
            raise
        await self._wait_for(self._end(tasks, self._commit))

    async def abort(self, tasks: TaskGroup) -> None:
        """Nothing of the transaction is committed. Problems are only logged: the broker aborts it later."""
        step = self._begin_abort(tasks)
        if step is not None:
            await self._wait_for(step)

    async def settle(self, tasks: TaskGroup) -> bool:
        """When the writer is closed: abort the transaction, or wait for its end. Returns whether one was aborted."""
        is_aborted = self._begin_abort(tasks) is not None
        if self._step is not None:
            await self._step.done.wait()
        return is_aborted

    def leave(self) -> None:
        """There is nobody left to end the transaction."""
        self._is_begun = False
        if self._link.state.current is not None:
            self._link.state.ended(is_over=False)

    def _require_begun(self, transaction: Transaction | None) -> None:
        if not self._is_begun or self._link.state.current is not transaction or transaction is None:
            raise KshareError(
                f"the transaction of {self._link.name} wasn't committed: the producer was closed before its end"
            )

    def _begin_abort(self, tasks: TaskGroup) -> _Step | None:
        if not self._is_begun or self._link.state.current is None:
            return None
        self._link.state.close()
        return self._end(tasks, self._abort)

    def _end(self, tasks: TaskGroup, work: Callable[[], Awaitable[None]]) -> _Step:
        self._is_begun = False
        return self._start(tasks, work)

    async def _wait_for(self, step: _Step) -> None:
        try:
            await wait_uncancelled(step.done)
        except BaseException:
            if isinstance(step.error, KshareError):
                log.warning("a transaction was cancelled while it ended: %s", step.error)
            raise
        self._forget(step)
        step.result()

    # --- in tasks of the writer

    def _start(self, tasks: TaskGroup, work: Callable[[], Awaitable[None]]) -> _Step:
        self._step = step = _Step(work)
        tasks.start_soon(step.run, name="kshare transaction")
        return step

    def _forget(self, step: _Step) -> None:
        if self._step is step:
            self._step = None

    async def _fence(self) -> None:
        try:
            self._sender.backlog.identity = await self._link.fence()
        except ProducerFenced as error:
            self._sender.stop(error)
            raise

    async def _commit(self) -> None:
        step, transaction = self._step, self._link.state.current
        try:
            await self._link.commit()
        except anyio.get_cancelled_exc_class():
            if step is not None and transaction is not None and transaction.may_be_ended:
                step.error = self._link.unknown(_CLOSED)
            raise
        except CommitUnknown as error:
            if isinstance(error.__cause__, ProducerFenced):
                self._sender.stop(error.__cause__)
            raise
        except ProducerFenced as error:
            self._sender.stop(error)
            raise
        except KshareError:
            with anyio.move_on_after(self._limit), suppress(KshareError):
                await self._fence()  # now, because readers wait for the end of the transaction
            raise

    async def _abort(self) -> None:
        reason = KshareError("the transaction was aborted")
        self._sender.give_up_idle(reason)
        with anyio.move_on_after(self._limit):
            await self._drain()
        self._sender.give_up_all(reason)
        if self._sender.fatal is not None:
            self._link.state.ended(is_over=False)
            return
        try:
            with anyio.fail_after(self._limit):
                await self._link.abort()
        except (KshareError, TimeoutError) as error:
            log.warning(
                "a transaction couldn't be aborted; the broker does that later: %s", error or "timeout"
            )
            if isinstance(error, ProducerFenced):
                self._sender.stop(error)


class _Step:
    """Work in a task of its own, and its error."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self.done = anyio.Event()
        self.error: BaseException | None = None
        self._work = work

    async def run(self) -> None:
        try:
            await self._work()
        except Exception as error:
            self.error = error
        except BaseException:
            self.error = self.error or KshareError(_CLOSED)
            raise
        finally:
            self.done.set()

    def result(self) -> None:
        error, self.error = self.error, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # see `kshare.errors`
