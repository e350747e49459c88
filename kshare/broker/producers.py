"""Idempotent and transactional producers, as a partition's log tracks them.

Decides whether a batch is new, a duplicate or out of order, and which transactions are open. Epochs are decided by the
transaction coordinator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.records import Batch, ControlType

_REMEMBERED = 5
"""The number of batches that a producer may have in flight."""
_SEQUENCES = 2**31
_COORDINATOR_EPOCH = 0
"""That of the transaction coordinator, which never moves here."""


@dataclass(slots=True)
class _Written:
    first_sequence: int
    last_sequence: int
    base_offset: int


@dataclass(slots=True)
class ProducerState:
    epoch: int
    written: deque[_Written] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    first_open_offset: int | None = None
    """The first offset of its open transaction in this partition."""
    last_timestamp: int = -1
    coordinator_epoch: int = -1
    """That of the last marker, or -1."""

    @property
    def last_base_offset(self) -> int:
        """The offset of its last batch in this epoch, or -1."""
        return self.written[-1].base_offset if self.written else -1


@dataclass(slots=True, frozen=True)
class EndedTransaction:
    first_offset: int
    was_aborted: bool


class ProducerStates:
    """All producers of a partition."""

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}

    def items(self) -> list[tuple[int, ProducerState]]:
        return list(self._states.items())

    def first_open_offset(self) -> int | None:
        """The first offset of the oldest open transaction."""
        first = None
        for state in self._states.values():
            opened = state.first_open_offset
            if opened is not None and (first is None or opened < first):
                first = opened
        return first

    def forget(self, producer_ids: Iterable[int]) -> None:
        for producer_id in producer_ids:
            self._states.pop(producer_id, None)

    def forget_deleted(self, left: Iterable[tuple[int, int]]) -> None:
        """Begin open transactions at their first batch that is left, or end them without one.

        `left` has the producer id and offset of each transactional batch, by offset.
        """
        firsts: dict[int, int] = {}
        for producer_id, base_offset in left:
            opened = self._states[producer_id].first_open_offset
            if opened is not None and base_offset >= opened:
                firsts.setdefault(producer_id, base_offset)
        for producer_id, state in self._states.items():
            if state.first_open_offset is not None:
                state.first_open_offset = firsts.get(producer_id)

    def has_open(self, producer_id: int) -> bool:
        state = self._states.get(producer_id)
        return state is not None and state.first_open_offset is not None

    def check(self, batch: Batch) -> int | None:
        """The offset of the original if the batch is a duplicate. Raises RequestError if it is out of order."""
        if batch.producer_id < 0 or batch.is_control:
            return None
        state = self._states.get(batch.producer_id)
        if state is None:
            return None
        if batch.producer_epoch < state.epoch:
            reason = (
                f"producer epoch {batch.producer_epoch} is outdated: epoch {state.epoch} has written already"
            )
            raise RequestError(ErrorCode.INVALID_PRODUCER_EPOCH, reason)
        if batch.producer_epoch > state.epoch:
            if batch.base_sequence != 0:
                raise _out_of_order(batch, 0)
            return None
        last = (batch.base_sequence + batch.record_count - 1) % _SEQUENCES
        for written in state.written:
            if (written.first_sequence, written.last_sequence) == (batch.base_sequence, last):
                return written.base_offset
        if state.written:
            expected = (state.written[-1].last_sequence + 1) % _SEQUENCES
            if batch.base_sequence != expected:
                raise _out_of_order(batch, expected)
        return None

    def record(self, batch: Batch, base_offset: int) -> EndedTransaction | None:
        """Record a batch that was appended. Returns the transaction that it ended, if any."""
        if batch.producer_id < 0:
            return None
        state = self._states.get(batch.producer_id)
        if state is None or state.epoch != batch.producer_epoch:
            before, state = state, ProducerState(batch.producer_epoch)
            self._states[batch.producer_id] = state
            if before is not None:
                state.first_open_offset, state.coordinator_epoch = (
                    before.first_open_offset,
                    before.coordinator_epoch,
                )
        state.last_timestamp = batch.max_timestamp
        if batch.is_control:
            first, state.first_open_offset = state.first_open_offset, None
            state.coordinator_epoch = _COORDINATOR_EPOCH
            if first is None:
                return None
            return EndedTransaction(first, batch.control_type == ControlType.ABORT)
        # Compaction may have removed records, but not their sequence numbers.
        last = (batch.base_sequence + batch.last_offset_delta) % _SEQUENCES
        state.written.append(_Written(batch.base_sequence, last, base_offset))
        if batch.is_transactional and state.first_open_offset is None:
            state.first_open_offset = base_offset
        return None


def _out_of_order(batch: Batch, expected: int) -> RequestError:
    reason = f"producer {batch.producer_id} sent sequence {batch.base_sequence}, but {expected} was expected"
    return RequestError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, reason)
