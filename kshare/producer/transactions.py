"""The transaction coordinator: gives a producer its id and epoch, and adds partitions to transactions and ends these.

Uses the protocol that every supported release has: partitions are added before they are written to. Requests are
retried as `Router` does; repeating any of them is safe, because the coordinator recognizes what it has already done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import anyio

from kshare.admin.routing import CoordinatorKind, ResponseError, Router, response_error
from kshare.errors import BrokerError, ProducerFenced
from kshare.net.permissions import Right
from kshare.producer.backlog import ProducerIdentity
from kshare.producer.settings import WriterSettings
from kshare.producer.verdicts import is_fencing
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
Place = tuple[str, int]

_ADDED_BY_CLIENTS = 3
"""The last version of AddPartitionsToTxn for clients; later ones are for brokers."""
_SAME_EPOCH = 4
"""The last version of EndTxn after which the producer keeps its epoch."""


class TransactionLink:
    """Without a transactional id, it only gets a producer id."""

    def __init__(self, router: Router, settings: WriterSettings) -> None:
        self.needs_identity = True
        """Something failed: the next transaction needs a new epoch, so that late requests can't get into it."""
        self.name = settings.transactional_id
        self._router = router
        self._timeout_ms = max(1, int(settings.transaction_timeout * 1000))
        self._identity: ProducerIdentity | None = None
        self._added: set[Place] = set()
        self._adding = anyio.Lock()

    async def identify(self) -> ProducerIdentity:
        """Get a producer id, or the next epoch of ours. Ends transactions that were left open."""
        previous = self._identity or ProducerIdentity(-1, -1)
        request = InitProducerIdRequest(self.name, self._timeout_ms, previous.producer_id, previous.epoch)
        if self.name is None:
            answer = await self._router.ask_any(request, self._begin_errors)
        else:
            answer = await self._ask(request, self._begin_errors)
        self._identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        self._added.clear()
        self.needs_identity = False
        return self._identity

    async def add(self, places: Iterable[Place]) -> None:
        """Add partitions to the open transaction, unless they belong to it."""
        async with self._adding:
            missing = [place for place in places if place not in self._added]
            if not missing or self._identity is None:
                return
            topics: dict[str, AddPartitionsToTxnTopic] = {}
            for topic, partition in missing:
                topics.setdefault(topic, AddPartitionsToTxnTopic(topic)).partitions.append(partition)
            request = AddPartitionsToTxnRequest(
                [],
                self.name or "",
                self._identity.producer_id,
                self._identity.epoch,
                list(topics.values()),
            )
            await self._ask(request, self._add_errors, version=_ADDED_BY_CLIENTS)
            self._added.update(missing)

    async def end(self, *, commits: bool) -> None:
        """End the transaction. The coordinator doesn't know it if no partition was added."""
        if not self._added or self._identity is None:
            return
        identity = self._identity
        request = EndTxnRequest(self.name or "", identity.producer_id, identity.epoch, commits)
        action = "committing" if commits else "aborting"
        await self._ask(request, lambda answer: self._end_errors(action, answer), version=_SAME_EPOCH)
        self._added.clear()

    async def _ask(
        self,
        request: Request[ResponseT],
        errors_of: Callable[[ResponseT], Iterable[ResponseError | None]],
        version: int | None = None,
    ) -> ResponseT:
        assert self.name is not None, "only transactions have a coordinator"
        try:
            _, answer = await self._router.ask_coordinator(
                self.name, request, errors_of, kind=CoordinatorKind.TRANSACTION, version=version
            )
        except BrokerError as error:
            if is_fencing(error.code):
                raise self.fenced(error.code) from None
            raise
        return answer

    def fenced(self, code: int) -> ProducerFenced:
        return ProducerFenced(
            code,
            f"transactional id {self.name}",
            "a newer producer has this id, or the transaction timed out: close this producer",
        )

    @property
    def _rights(self) -> list[Right]:
        return [] if self.name is None else [Right("Write", "transactional-id", self.name)]

    def _begin_errors(self, answer: InitProducerIdResponse) -> Iterable[ResponseError | None]:
        of = "" if self.name is None else f" for transactional id {self.name}"
        yield response_error(answer.error_code, f"getting a producer id{of}", needs=self._rights)

    def _add_errors(self, answer: AddPartitionsToTxnResponse) -> Iterable[ResponseError | None]:
        for topic in answer.results_by_topic_v3_and_below:
            rights = [*self._rights, Right("Write", "topic", topic.name)]
            for row in topic.results_by_partition:
                action = f"adding {topic.name}[{row.partition_index}] to the transaction"
                yield response_error(row.partition_error_code, action, needs=rights)

    def _end_errors(self, action: str, answer: EndTxnResponse) -> Iterable[ResponseError | None]:
        yield response_error(
            answer.error_code, f"{action} the transaction of {self.name}", needs=self._rights
        )
