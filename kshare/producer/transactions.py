"""The transaction coordinator: gives a producer its id and epoch, and adds partitions to transactions and ends these.

Uses the protocol that every supported release has, whatever the cluster's `transaction.version` is: partitions are
added before they are written to, and the epoch stays the same from one transaction to the next. (With version 5 of
EndTxn, it would be another one after each.) Requests are retried as `Router` does. Repeating one is safe, because the
coordinator recognizes what it has already done; what isn't safe is one that arrives late: see `transaction_state`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import anyio

from kshare.admin.routing import CoordinatorKind, ResponseError, Router, response_error
from kshare.errors import BrokerError, CommitUnknown, KshareError, ProducerFenced
from kshare.net.permissions import Right
from kshare.producer.backlog import ProducerIdentity
from kshare.producer.batch_outcomes import is_fencing
from kshare.producer.settings import WriterSettings
from kshare.producer.transaction_state import Place, Transaction, TransactionState
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.message import Message, Request
from kshare.protocol.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kshare.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic

ResponseT = TypeVar("ResponseT", bound=Message)
ErrorsOf = Callable[[ResponseT], Iterable[ResponseError | None]]

_ADDED_BY_CLIENTS = 3
"""The last version of AddPartitionsToTxn for clients; later ones are for brokers."""
_SAME_EPOCH = 4
"""The last version of EndTxn after which the producer keeps its epoch."""
_NOTHING_TO_END = ErrorCode.INVALID_TXN_STATE
"""The response to an abort if the transaction is over, or was never begun."""


class TransactionLink:
    """Without a transactional id, it only gets a producer id."""

    def __init__(self, router: Router, settings: WriterSettings) -> None:
        self.name = settings.transactional_id
        self.state = TransactionState()
        self._router = router
        self._timeout_ms = max(1, int(settings.transaction_timeout * 1000))
        self._adding = anyio.Lock()
        self._scopes: dict[anyio.CancelScope, None] = {}
        """Of calls of `add` for the current transaction, in order: a set's would depend on addresses in memory."""

    # --- epochs

    async def identify(self) -> ProducerIdentity:
        """Get a producer id, or the next epoch of ours. Ends transactions that another producer has left open."""
        previous = self.state.identity or ProducerIdentity(-1, -1)
        request = InitProducerIdRequest(self.name, self._timeout_ms, previous.producer_id, previous.epoch)
        if self.name is None:
            response = await self._router.ask_any(request, self._begin_errors)
        else:
            response = await self._ask(request, self._begin_errors, on_sent=self.state.on_identifying)
        identity = ProducerIdentity(response.producer_id, response.producer_epoch)
        self.state.on_identified(identity)
        return identity

    async def fence(self) -> ProducerIdentity:
        """Get the next epoch, so that late requests of the last one have no effect. What is left of it is aborted.

        If AddPartitionsToTxn was lost and is executed between both requests, the coordinator fences this producer.
        That can't be prevented, but nothing is told wrongly.
        """
        last = self.state.identity
        if self.state.may_be_ongoing and last is not None:
            try:
                await self._ask_to_end(last, commits=False)
            except BrokerError as error:
                if error.code != _NOTHING_TO_END:
                    raise
            self.state.on_nothing_ongoing()
        return await self.identify()

    # --- transactions

    def begin(self) -> Transaction:
        self._adding, self._scopes = anyio.Lock(), {}
        return self.state.begin()

    def require(self, transaction: Transaction | None) -> None:
        """Raise if the transaction has ended. Nothing of it must be sent any more."""
        if not self.state.is_open(transaction):
            raise KshareError(f"the transaction of {self.name} has ended")

    async def add(self, transaction: Transaction | None, places: Iterable[Place]) -> None:
        """Add partitions to the transaction, unless they belong to it. Raises KshareError if it has ended."""
        wanted = list(places)
        if transaction is None or transaction.added.issuperset(wanted):
            self.require(transaction)
            return
        with anyio.CancelScope() as scope:
            scopes = self._scopes
            scopes[scope] = None
            try:
                async with self._adding:
                    await self._add_missing(transaction, wanted)
            finally:
                del scopes[scope]
        self.require(transaction)

    async def _add_missing(self, transaction: Transaction, places: list[Place]) -> None:
        self.require(transaction)
        missing = [place for place in places if place not in transaction.added]
        if not missing:
            return
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for topic, partition in missing:
            topics.setdefault(topic, AddPartitionsToTxnTopic(topic)).partitions.append(partition)
        request = AddPartitionsToTxnRequest(
            [],
            self.name or "",
            transaction.identity.producer_id,
            transaction.identity.epoch,
            list(topics.values()),
        )

        def on_sent() -> None:
            self.state.on_adding(transaction)
            transaction.on_sent()

        def errors_of(response: AddPartitionsToTxnResponse) -> Iterable[ResponseError | None]:
            transaction.on_response()
            return self._add_errors(response)

        try:
            await self._ask(request, errors_of, version=_ADDED_BY_CLIENTS, on_sent=on_sent)
        except ProducerFenced:
            self.require(transaction)  # after its end, its epoch is refused: this producer has a newer one
            raise
        transaction.added.update(missing)

    async def commit(self) -> None:
        """Raises CommitUnknown if it isn't known whether it was committed; other errors if it was not."""
        transaction = self._begin_end()
        is_over = not transaction.is_known
        try:
            if transaction.is_known:
                await self._end(transaction, commits=True)
                is_over = True
        except KshareError as error:
            if not transaction.may_be_ended:
                raise
            raise self.unknown(error) from error
        finally:
            self.state.ended(is_over=is_over)

    async def abort(self) -> None:
        """Afterwards, the producer needs the next epoch, because batches of the transaction may arrive late."""
        transaction = self._begin_end()
        is_over = not transaction.is_known
        try:
            if transaction.is_known:
                await self._end(transaction, commits=False)
                is_over = True
        except BrokerError as error:
            if error.code != _NOTHING_TO_END:
                raise
            is_over = True
        finally:
            self.state.ended(is_over=is_over, needs_epoch=True)

    def _begin_end(self) -> Transaction:
        for scope in self._scopes:
            scope.cancel()
        return self.state.begin_end()

    async def _end(self, transaction: Transaction, *, commits: bool) -> None:
        was_open = False

        def on_sent() -> None:
            nonlocal was_open
            was_open = self.state.on_ending(transaction)
            transaction.on_sent()

        def on_response(code: int) -> None:
            transaction.on_response()
            self.state.on_end_refused(transaction, code, was_open=was_open)

        await self._ask_to_end(
            transaction.identity, commits=commits, on_sent=on_sent, on_response=on_response
        )

    async def _ask_to_end(
        self,
        identity: ProducerIdentity,
        *,
        commits: bool,
        on_sent: Callable[[], object] | None = None,
        on_response: Callable[[int], object] = lambda code: None,
    ) -> None:
        action = "committing" if commits else "aborting"

        def errors_of(response: EndTxnResponse) -> Iterable[ResponseError | None]:
            on_response(response.error_code)
            return self._end_errors(action, response)

        request = EndTxnRequest(self.name or "", identity.producer_id, identity.epoch, commits)
        await self._ask(request, errors_of, version=_SAME_EPOCH, on_sent=on_sent)

    # --- requests

    async def _ask(
        self,
        request: Request[ResponseT],
        errors_of: ErrorsOf[ResponseT],
        version: int | None = None,
        on_sent: Callable[[], object] | None = None,
    ) -> ResponseT:
        assert self.name is not None, "only transactions have a coordinator"
        try:
            _, response = await self._router.ask_coordinator(
                self.name,
                request,
                errors_of,
                kind=CoordinatorKind.TRANSACTION,
                version=version,
                on_sent=on_sent,
            )
        except BrokerError as error:
            if is_fencing(error.code):
                raise self.fenced(error.code) from None
            raise
        return response

    def unknown(self, reason: object) -> CommitUnknown:
        return CommitUnknown(
            f"transactional id {self.name}: it isn't known whether the transaction was committed: all of its "
            f"records are visible, or none. Read them to find out, before you write them again ({reason})"
        )

    def fenced(self, code: int) -> ProducerFenced:
        return ProducerFenced(
            code,
            f"transactional id {self.name}",
            "a newer producer has this id, or the transaction timed out: close this producer",
        )

    @property
    def _rights(self) -> list[Right]:
        return [] if self.name is None else [Right("Write", "transactional-id", self.name)]

    def _begin_errors(self, response: InitProducerIdResponse) -> Iterable[ResponseError | None]:
        of = "" if self.name is None else f" for transactional id {self.name}"
        yield response_error(response, f"getting a producer id{of}", *self._rights)

    def _add_errors(self, response: AddPartitionsToTxnResponse) -> Iterable[ResponseError | None]:
        for topic in response.results_by_topic_v3_and_below:
            rights = *self._rights, Right("Write", "topic", topic.name)
            for row in topic.results_by_partition:
                if row.partition_error_code:
                    action = f"adding {topic.name}[{row.partition_index}] to the transaction"
                    yield ResponseError(row.partition_error_code, action, None, rights)

    def _end_errors(self, action: str, response: EndTxnResponse) -> Iterable[ResponseError | None]:
        yield response_error(response, f"{action} the transaction of {self.name}", *self._rights)
