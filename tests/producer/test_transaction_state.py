"""What a producer knows of its transactions, as requests are sent, answered and lost."""

from __future__ import annotations

import pytest

from kshare.producer.backlog import ProducerIdentity
from kshare.producer.transaction_state import Phase, Transaction, TransactionState
from kshare.protocol.error_codes import ErrorCode


@pytest.fixture
def state() -> TransactionState:
    state = TransactionState()
    assert state.needs_identity
    state.on_identifying()
    state.on_identified(ProducerIdentity(7, 0))
    return state


def begun(state: TransactionState) -> Transaction:
    """A transaction to which partitions were added."""
    transaction = state.begin()
    state.on_adding(transaction)
    transaction.on_sent()
    transaction.on_response()
    return transaction


def ask_to_end(state: TransactionState, transaction: Transaction, *codes: int | None) -> None:
    """Send EndTxn, and again after each error. None: no response."""
    for code in codes:
        was_open = state.on_ending(transaction)
        transaction.on_sent()
        if code is not None:
            transaction.on_response()
            if code:
                state.on_end_refused(transaction, code, was_open=was_open)


def test_one_transaction_after_another(state: TransactionState) -> None:
    for _ in range(2):
        transaction = begun(state)
        assert state.is_open(transaction)
        state.close()
        assert state.is_open(transaction)  # what was written before is sent
        state.begin_end()
        assert not state.is_open(transaction)
        ask_to_end(state, transaction, 0)
        state.ended(is_over=True)
        assert (state.phase, state.may_be_ongoing) == (Phase.READY, False)


@pytest.mark.parametrize("is_over", [True, False])
def test_a_request_without_response_needs_the_next_epoch(state: TransactionState, is_over: bool) -> None:
    transaction = begun(state)
    state.begin_end()
    ask_to_end(state, transaction, None, 0)
    state.ended(is_over=is_over)
    assert state.needs_identity
    assert state.may_be_ongoing
    state.on_nothing_ongoing()
    state.on_identifying()
    state.on_identified(ProducerIdentity(7, 1))
    assert state.begin().identity.epoch == 1
    assert not state.is_open(transaction)


def test_an_aborted_transaction_needs_the_next_epoch(state: TransactionState) -> None:
    transaction = begun(state)
    state.begin_end()
    ask_to_end(state, transaction, 0)
    state.ended(is_over=True, needs_epoch=True)
    assert (state.phase, state.may_be_ongoing) == (Phase.UNKNOWN, False)


@pytest.mark.parametrize(
    ("codes", "is_open"),
    [
        ((ErrorCode.PRODUCER_FENCED,), False),
        ((ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), False),
        ((ErrorCode.NOT_COORDINATOR, ErrorCode.PRODUCER_FENCED), True),
        ((ErrorCode.COORDINATOR_NOT_AVAILABLE,), True),
        ((ErrorCode.UNKNOWN_SERVER_ERROR,), True),
        ((None, ErrorCode.PRODUCER_FENCED), True),
        ((None, ErrorCode.INVALID_TXN_STATE, ErrorCode.CONCURRENT_TRANSACTIONS), True),
        ((ErrorCode.CONCURRENT_TRANSACTIONS, None), True),
    ],
)
def test_whether_a_transaction_may_be_ended(
    state: TransactionState, codes: tuple[int | None, ...], is_open: bool
) -> None:
    transaction = begun(state)
    state.begin_end()
    ask_to_end(state, transaction, *codes)
    assert transaction.may_be_ended == is_open
