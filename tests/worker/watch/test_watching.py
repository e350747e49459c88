"""How a run ended, as observers see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from kshare.errors import InProgress
from kshare.worker.records.delivery import Delivery
from kshare.worker.rules.decision import RecordOutcome, RunResult
from kshare.worker.watch.observer import HandlerRun, RecordProcessed, WorkerObserver
from kshare.worker.watch.watching import Watch


class Runs(WorkerObserver):
    def __init__(self) -> None:
        self.ended: list[HandlerRun] = []
        self.settled: list[RecordProcessed] = []

    def on_run(self, run: HandlerRun) -> Callable[[], None]:
        return lambda: self.ended.append(run)

    def on_settled(self, settled: RecordProcessed) -> None:
        self.settled.append(settled)


class FakeDelivery:
    def __init__(self, *, is_cancelled: bool = False, is_settled: bool = False) -> None:
        self.is_cancelled = is_cancelled
        self.is_settled = is_settled


def delivery(**fields: Any) -> Delivery:
    return cast("Delivery", FakeDelivery(**fields))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("error", "is_cancelled", "result"),
    [
        (None, False, RunResult.RETURNED),
        (ValueError(), False, RunResult.FAILED),
        (InProgress("elsewhere", retry_after=1), False, RunResult.POSTPONED),
        (KeyboardInterrupt(), False, RunResult.CANCELLED),
        (SystemExit(), False, RunResult.FAILED),
        (None, True, RunResult.CANCELLED),
        (ValueError(), True, RunResult.CANCELLED),
    ],
)
async def test_result_of_a_run(error: BaseException | None, is_cancelled: bool, result: RunResult) -> None:
    runs = Runs()
    try:
        with Watch([runs], "ship", "g").run([delivery(is_cancelled=is_cancelled)]):
            if error is not None:
                raise error
    except BaseException as raised:
        assert raised is error
    (run,) = runs.ended
    assert (run.result, run.error) == (result, error)


def test_cause_is_the_name_of_the_error() -> None:
    runs = Runs()
    watch = Watch([runs], "ship", "g")
    watch.settled(RecordOutcome.LOST, delivery(), ValueError("secret"))
    watch.settled(RecordOutcome.HELD, delivery(), None)
    assert [record.cause for record in runs.settled] == ["ValueError", ""]


def test_without_observers_nothing_is_created() -> None:
    watch = Watch()
    assert not watch.is_on
    assert watch.run([]) is watch.run([])


@pytest.mark.anyio
async def test_a_record_that_is_decided_is_not_postponed() -> None:
    runs = Runs()
    with (
        pytest.raises(InProgress),
        Watch([runs], "ship", "g").run([delivery(is_settled=True)]),
    ):
        raise InProgress("elsewhere", retry_after=1)
    assert [run.result for run in runs.ended] == [RunResult.FAILED]
