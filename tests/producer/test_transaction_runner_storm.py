"""A storm of transactions on the embedded broker, judged by librdkafka's `read_committed`; and the judge itself."""

from __future__ import annotations

import anyio
import pytest

from kshare.producer.transaction_state import TransactionState
from kshare.protocol.messages import EndTxnRequest, ProduceRequest
from kshare.testing import Broker
from tests.helpers.transaction_ledger import Ledger, Outcome, Told, visible
from tests.helpers.transaction_storm import PARTITIONS, TOPIC, TransactionStorm


def storm_on(
    broker: Broker, seed: int, count: int, rate: float, backend: str = "asyncio"
) -> TransactionStorm:
    broker.create_topic(TOPIC, PARTITIONS)
    storm = TransactionStorm(broker.bootstrap, seed, is_asyncio=backend == "asyncio")
    anyio.run(storm.run, count, rate, backend=backend)
    return storm


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("seed", "rate", "backend"),
    [(1, 0.0, "asyncio"), (2, 0.1, "asyncio"), (3, 0.2, "trio")],
)
def test_callers_are_told_what_becomes_of_transactions(
    kshare_broker: Broker, seed: int, rate: float, backend: str
) -> None:
    storm = storm_on(kshare_broker, seed, 40, rate, backend)
    assert [*storm.ledger.problems(visible(kshare_broker.bootstrap, TOPIC, PARTITIONS))] == []
    assert not storm.is_fenced_for_nothing, storm.ledger.summary()
    assert {told.outcome for told in storm.ledger.transactions} >= {Outcome.COMMITTED, Outcome.ABORTED}


@pytest.mark.lengthy
def test_the_storm_finds_commits_that_are_taken_for_refused(
    kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted defect: the last error decides, whatever became of earlier requests."""
    monkeypatch.setattr(TransactionState, "on_ending", lambda state, transaction: False)
    kshare_broker.faults.add(EndTxnRequest, times=None, cut_after=3, when=lambda request: request.committed)
    storm = storm_on(kshare_broker, 4, 12, 0.0)
    problems = [*storm.ledger.problems(visible(kshare_broker.bootstrap, TOPIC, PARTITIONS))]
    assert any("told to be aborted" in problem for problem in problems), storm.ledger.summary()


@pytest.mark.lengthy
def test_the_storm_finds_records_that_are_accepted_during_the_commit(
    kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted defect: a transaction takes records while its end waits for those before."""
    monkeypatch.setattr(TransactionState, "close", lambda state: None)
    kshare_broker.faults.add(ProduceRequest, times=None, before_ms=20)
    storm = storm_on(kshare_broker, 5, 40, 0.0)
    problems = [*storm.ledger.problems(visible(kshare_broker.bootstrap, TOPIC, PARTITIONS))]
    assert any("told to be committed" in problem for problem in problems), storm.ledger.summary()


@pytest.mark.parametrize(
    ("outcome", "seen", "is_right"),
    [
        (Outcome.COMMITTED, [b"a", b"b"], True),
        (Outcome.COMMITTED, [b"a"], False),
        (Outcome.COMMITTED, [b"a", b"b", b"b"], False),
        (Outcome.ABORTED, [], True),
        (Outcome.ABORTED, [b"b"], False),
        (Outcome.OPEN, [], True),
        (Outcome.OPEN, [b"b", b"a"], True),
        (Outcome.OPEN, [b"a"], False),
        (None, [], False),
        (Outcome.ABORTED, [b"c"], False),
    ],
)
def test_the_judge_of_outcomes(outcome: Outcome | None, seen: list[bytes], is_right: bool) -> None:
    ledger = Ledger([Told("0", {b"a", b"b"}, outcome)])
    assert (not [*ledger.problems(seen)]) == is_right
