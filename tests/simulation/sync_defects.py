"""Defects to plant in `kshare.sync`: in its loops, its calls and what signals interrupt. One is of the storm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from kshare.client.record import ShareRecord, lease_of
from kshare.state.lease import ACCEPT
from kshare.sync import consumer, producer
from kshare.sync.consumer import BlockingConsumer
from kshare.sync.decision_queue import DecisionQueue
from kshare.sync.loops import BlockingLoop, OpenedBatch, RecordLoop
from kshare.sync.producer import Producer
from kshare.sync.shared_loop import LoopClosed, SharedLoop
from tests.integration.consumer_storm import defects as storm
from tests.simulation.planting import Defect, nothing, replace


def what_ended_loops_had_in_hand_is_kept() -> None:
    replace(OpenedBatch, "give_back", nothing)


def loops_that_are_left_accept() -> None:
    end = BlockingLoop._end

    def accept_and_end(loop: Any) -> None:
        current = loop._current
        if isinstance(current, ShareRecord):
            loop._opened.decisions.settle_if_held(lease_of(current.batch), current.offset, ACCEPT)
            loop._current = None
        end(loop)

    replace(BlockingLoop, "_end", accept_and_end)


def commits_overtake_decisions() -> None:
    def run(self: Any, function: Callable[[], Any]) -> Any:
        decisions = self._opened()
        self._require_other_thread("this call", decisions)
        try:
            return decisions.loop.run(function)
        except LoopClosed as error:
            raise self._closed() from error

    replace(BlockingConsumer, "_run", run)
    replace(DecisionQueue, "on_run", nothing)


def interrupted_closing_is_not_finished() -> None:
    def once(close: Callable[[], None]) -> None:
        close()

    replace(consumer, "finish", once)
    replace(producer, "finish", once)


def batches_of_interrupted_calls_are_lost() -> None:
    def make(self: Any, call: Any, function: Callable[[], Any]) -> None:
        self._loops.require_turn()
        self._run(function)

    replace(BlockingConsumer, "_make", make)


def iterators_serve_two_threads() -> None:
    following = RecordLoop.__next__

    def serve(loop: Any) -> Any:
        loop._is_asking = False
        return following(loop)

    replace(BlockingLoop, "_hand_over", nothing)
    RecordLoop.__next__ = serve  # type: ignore[method-assign]


def interrupted_transactions_are_committed() -> None:
    @contextmanager
    def transaction(self: Any) -> Iterator[None]:
        block = producer._Block(self._producer.transaction())
        self._run(block.begin)
        try:
            yield
        finally:
            self._run(lambda: block.end(None))

    replace(Producer, "transaction", transaction)


def closing_twice_does_not_wait() -> None:
    close = Producer.close

    def close_once(self: Any) -> None:
        if not getattr(self, "is_closing", False):
            self.is_closing = True
            close(self)

    replace(Producer, "close", close_once)


def threads_are_not_told_apart() -> None:
    def called_by(thread: object, function: Callable[[], Any]) -> Callable[[], Any]:
        return function

    replace(producer, "_called_by", called_by)


def the_loop_stands_still_while_its_user_is_away() -> None:
    def never(loop: Any) -> None:
        with loop._mutex:
            while not loop._is_over:
                loop._changed.wait()

    replace(SharedLoop, "_run_meanwhile", never)


_OWN: Iterable[tuple[Callable[[], None], str, str, int]] = (
    (what_ended_loops_had_in_hand_is_kept, "kept", "doesn't give back what ended loops had in hand", 1),
    (loops_that_are_left_accept, "accepted unseen", "accepts the record at which a loop was left", 1),
    (commits_overtake_decisions, "confirmed falsely", "commits without what is queued for the event loop", 1),
    (interrupted_closing_is_not_finished, "left behind", "doesn't close what a signal interrupts", 2),
    (batches_of_interrupted_calls_are_lost, "kept", "forgets a batch whose caller was interrupted", 1),
    (iterators_serve_two_threads, "accepted unseen", "lets two threads take turns with an iterator", 8),
    (interrupted_transactions_are_committed, "transaction", "commits transactions that are interrupted", 3),
    (closing_twice_does_not_wait, "left behind", "lets only the first caller of `close` wait for its end", 2),
    (threads_are_not_told_apart, "broken promise", "tells one thread in `flush` of the records of all", 1),
    (
        the_loop_stands_still_while_its_user_is_away,
        "left behind",
        "does nothing while its user's code runs",
        1,
    ),
)
DEFECTS = [
    Defect(
        storm.sync_accepts_ranges,
        "sync",
        storm.DEFECTS["sync_accepts_ranges"][1],
        "accepts all up to the current record",
        1,
    ),
    *(Defect(plant, "sync", finding, what, seed) for plant, finding, what, seed in _OWN),
]
