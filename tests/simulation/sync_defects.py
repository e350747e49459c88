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
from kshare.sync.loops import BlockingLoop, RecordLoop
from kshare.sync.producer import Producer
from kshare.sync.shared_loop import LoopClosed
from tests.integration.consumer_storm import defects as storm
from tests.simulation.planting import Defect, nothing, replace


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


def iterators_serve_two_threads() -> None:
    following = RecordLoop.__next__

    def serve(loop: Any) -> Any:
        loop._is_asking = False
        return following(loop)

    replace(BlockingLoop, "_hand_over", nothing)
    replace(RecordLoop, "__next__", serve)


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


_OWN: Iterable[tuple[Callable[[], None], str, str, int]] = (
    (loops_that_are_left_accept, "accepted unseen", "accepts the record at which a loop was left", 1),
    (commits_overtake_decisions, "confirmed falsely", "commits without what is queued for the event loop", 1),
    (interrupted_closing_is_not_finished, "left behind", "doesn't close what a signal interrupts", 13),
    (iterators_serve_two_threads, "accepted unseen", "lets two threads take turns with an iterator", 19),
    (interrupted_transactions_are_committed, "transaction", "commits transactions that are interrupted", 18),
    (
        closing_twice_does_not_wait,
        "left behind",
        "lets only the first caller of `close` wait for its end",
        13,
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
