"""Workers, and what becomes of their records: handlers, retries, results, dead letters, cancellation, draining.

Each worker has the real `Pipeline`, `Slots`, `SlotWork`, `SlotWatch` and `Draining` of a handler, and real leases. Its
handler publishes a result, and returns or raises when an event says so. Writes of copies and results wait for events,
too. Around it are models: which worker has which record, and what was written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import anyio

from kshare.client.made_records import made_batch
from kshare.client.record import ShareRecord, lease_of
from kshare.errors import KshareError
from kshare.producer.records import NewRecord, Produced
from kshare.protocol.error_codes import ErrorCode
from kshare.state.acks import PartitionAcks
from kshare.state.lease import ACCEPT, REJECT, RELEASE, Lease
from kshare.worker.handlers.inspection import inspect_handler
from kshare.worker.handlers.options import HandlerOptions
from kshare.worker.handlers.routes import Route
from kshare.worker.host import RunningHandler
from kshare.worker.records.delivery import Delivery
from kshare.worker.rules.limits import ShareLimits
from kshare.worker.rules.retry import Retry
from kshare.worker.run.draining import Draining
from kshare.worker.run.pipeline import Pipeline
from kshare.worker.run.slot_watch import SlotWatch
from kshare.worker.run.slot_work import SlotWork
from kshare.worker.run.slots import Slots
from tests.exhaustive.explorer import Event, System
from tests.exhaustive.stepping import Gates, SteppedLoop, place_of

_AGAIN_S = 0.4
"""How long a record is held after its first failure."""
_DRAIN_S = 0.3
_LONG_S = 30.0
"""Longer than anything may take when a worker stops."""


@dataclass(frozen=True, kw_only=True)
class SettlingSizes:
    members: int = 2
    records: int = 3
    faults: int = 2
    at_once: int = 2
    """How many records a worker has at once."""
    failures: int = 2
    """How often handlers raise. With two, a record becomes a dead letter."""


@dataclass
class Held:
    """A record that a worker has from the broker."""

    worker: str
    lease: Lease
    is_finished: bool = False
    """Whether its handler has returned for this delivery."""


class HandlerFailed(Exception):
    """What a handler raises."""


class Ours:
    """A worker: its handler, without a consumer."""

    def __init__(self, name: str, system: SettlingSystem) -> None:
        self.name = name
        self._system = system
        self.loop = system.loop
        self.acks: PartitionAcks | None = None
        self.records: dict[int, ShareRecord] = {}
        self.is_stopping = False
        self.is_told_again = False
        self._stopping = asyncio.Event()
        self.limits = ShareLimits()
        options = HandlerOptions(
            group="group",
            concurrency=system.sizes.at_once,
            retry=Retry(attempts=2, delay=_AGAIN_S),
            dead_letters="dead",
            breaker=None,
        )
        self.route = Route("handler", ("t",), inspect_handler(self._handle), options)
        clock = self.loop.time
        handler = RunningHandler(self.route, self.limits, self, clock=clock, wall_clock=clock)
        self.pipeline = Pipeline(handler, self)
        self.task = self.loop.create_task(self._run())

    async def _run(self) -> None:
        pipeline = self.pipeline
        async with anyio.create_task_group() as tasks:
            pipeline.handler.tasks = tasks
            work = SlotWork(pipeline, wants=pipeline.handler.changed)
            self.slots = Slots(tasks, self._system.sizes.at_once, work.run)
            self.watch = SlotWatch(pipeline, self.slots)
            self.draining = Draining(pipeline, self.slots, self.watch, _DRAIN_S)
            self.scope = tasks.cancel_scope
            await self._stopping.wait()
            await self.draining.run()
            tasks.cancel_scope.cancel()

    async def _handle(self, delivery: Delivery) -> None:
        delivery.publish("results", delivery.value)
        offset = delivery.offset
        if await self._system.gates.wait(f"{self.name} handler {offset}") == "raises":
            raise HandlerFailed
        held = self._system.held.get(offset)
        if held is not None and held.lease is lease_of(delivery.record.batch):
            held.is_finished = True

    # --- `Publisher`

    async def publish(self, topic: str, record: NewRecord, partition: int | None = None) -> Produced:
        await self._write("dead letter", record.value)
        return Produced(topic, 0, 0, 0)

    async def write(self, results: Sequence[Any]) -> None:
        for _, record, _ in results:
            await self._write("result", record.value)

    async def has_later(self, *arguments: Any) -> bool:
        return False

    async def _write(self, what: str, value: bytes | None) -> None:
        offset = int(value or b"")
        deed = await self._system.gates.wait(f"{self.name} {what} {offset}")
        if deed != "fails":
            self._system.written.add((what, offset))
        if deed != "writes":
            raise KshareError("not confirmed")
        self._system.confirmed.add((self.name, what, offset))

    # --- `Host`

    can_renew = True
    is_stuck = False

    def release_unseen(self, record: ShareRecord) -> bool:
        record.release()
        return True

    def check_leases(self) -> None:
        """Events say when one expires."""

    def is_idle(self) -> bool:
        queue = self.pipeline.queue
        return not queue.has_ready and not self.slots.busy and not self.pipeline.settling

    def on_admission(self) -> None:
        """Nothing pauses."""

    async def look_for_limits(self) -> None:
        """They stay as they are."""

    def wake(self) -> None:
        if self.pipeline.admission.may_start and self.pipeline.queue.has_ready:
            self.slots.wake_one()

    # --- what a consumer does

    def take_in(self, offset: int, deliveries: int) -> Lease:
        batch = made_batch("t", [b"%d" % offset], offset=offset, delivery_count=deliveries)
        lease = lease_of(batch)
        if self.acks is None:
            self.acks = PartitionAcks(lease.partition)
        self.acks.add(lease)
        self.pipeline.queue.take_in(batch)
        self.wake()
        return lease

    def look_after(self) -> None:
        self.pipeline.queue.bring_due(self.loop.time())
        self.watch.look()
        self.wake()

    def stop(self) -> None:
        self.is_stopping = True
        self._stopping.set()

    def stop_at_once(self) -> None:
        self.is_told_again = True
        self.draining.abandon()
        self.scope.cancel()


class SettlingSystem:
    """See `System`."""

    def __init__(self, sizes: SettlingSizes) -> None:
        self.sizes = sizes
        self.faults_left, self.failures_left = sizes.faults, sizes.failures
        self.found: list[str] = []
        self.loop = SteppedLoop()
        self.gates = Gates(self.loop)
        self.states = ["free"] * sizes.records
        self.deliveries = [0] * sizes.records
        self.held: dict[int, Held] = {}
        self.written: set[tuple[str, int]] = set()
        self.confirmed: set[tuple[str, str, int]] = set()
        """By worker: what it knows to be written."""
        self.ours = [self._start(name) for name in "ABCDEFG"[: sizes.members]]

    def _start(self, name: str) -> Ours:
        return self.loop.call(partial(Ours, name, self))

    # --- events

    def events(self) -> Sequence[Event]:
        return [*self._events()]

    def _events(self) -> Iterator[Event]:
        free = next((offset for offset, state in enumerate(self.states) if state == "free"), None)
        for ours in self.ours:
            name = ours.name
            if free is not None and not ours.is_stopping and len(self._held_by(name)) < self.sizes.at_once:
                yield Event(f"{name} gets record {free}")
            if ours.acks is not None and (ours.acks.is_under_way or ours.acks.has_decided):
                yield Event(f"the broker responds to {name}'s acknowledgements")
            if (due := ours.pipeline.queue.next_due) is not None and due > self.loop.time():
                yield Event(f"time passes until the next attempt of {name}")
            if ours.is_stopping:
                yield Event(f"time passes while {name} stops")
        for gate in dict.fromkeys(self.gates.closed):
            name, what, offset = gate.replace("dead letter", "dead-letter").split()
            what = what.replace("-", " ")
            if what == "handler":
                yield Event(f"{name}'s handler returns for record {offset}")
                if self.failures_left:
                    yield Event(f"{name}'s handler raises for record {offset}")
            else:
                yield Event(f"{name}'s {what} of record {offset} is written")
        if self.faults_left:
            for event in self._faults():
                yield Event(event, True)

    def _faults(self) -> Iterator[str]:
        for ours in self.ours:
            name = ours.name
            if self._held_by(name):
                yield f"{name} dies"
                yield f"{name}'s session ends"
                if ours.acks is not None and (ours.acks.is_under_way or ours.acks.has_decided):
                    yield f"the broker carries out {name}'s acknowledgements, and the session ends"
            for offset in self._held_by(name):
                yield f"{name}'s lock of record {offset} expires"
            if not ours.is_stopping:
                yield f"{name} is told to stop"
            elif not ours.is_told_again:
                yield f"{name} is told to stop again"
        for gate in dict.fromkeys(self.gates.closed):
            name, what, number = gate.replace("dead letter", "dead-letter").split()
            if what != "handler":
                what = what.replace("-", " ")
                yield f"{name}'s {what} of record {number} can't be written"
                yield f"{name}'s {what} of record {number} is written, and nobody confirms it"

    def _held_by(self, name: str) -> list[int]:
        return [offset for offset, held in sorted(self.held.items()) if held.worker == name]

    def do(self, name: str) -> None:
        if any(event.name == name and event.is_fault for event in self.events()):
            self.faults_left -= 1
        self._do(name)
        self.loop.settle()
        for number, ours in enumerate(self.ours):
            if ours.task.done():
                ours.task.result()
                if ours.acks is not None and ours.acks.has_decided:
                    self._acknowledge(ours, has_response=True)  # as a consumer does that is closed
                self._end_session(ours)
                self.ours[number] = self._start(ours.name)
        for ours in self.ours:
            if ours.acks is not None and not ours.acks.is_under_way:
                ours.acks.forget_done()
        if self.loop.problems:
            raise AssertionError(self.loop.problems[0])

    def _do(self, name: str) -> None:
        words = name.split()
        ours = next(ours for ours in self.ours if {ours.name, f"{ours.name}'s"} & {*words})
        offset = int(words[words.index("record") + 1].rstrip(",")) if "record " in name else -1
        kind = "dead letter" if "dead letter" in name else "result"
        if "gets" in words:
            self.states[offset] = "held"
            self.deliveries[offset] += 1
            lease = self.loop.call(partial(ours.take_in, offset, self.deliveries[offset]))
            self.held[offset] = Held(ours.name, lease)
        elif "acknowledgements" in name and "responds" in words:
            self._acknowledge(ours, has_response=True)
        elif "acknowledgements," in words:
            self._acknowledge(ours, has_response=False)
            self._end_session(ours)
        elif "attempt" in words:
            due = ours.pipeline.queue.next_due
            assert due is not None, "an event says so"
            self._pass_time(due)
        elif name.endswith("stops"):
            self._pass_time(self.loop.time() + (_LONG_S if self._is_stuck(ours) else 2 * _DRAIN_S))
        elif "handler" in name:
            if "raises" in words:
                self.failures_left -= 1
            self.gates.open(f"{ours.name} handler {offset}", "raises" if "raises" in words else "returns")
        elif name.endswith("is written"):
            self.gates.open(f"{ours.name} {kind} {offset}", "writes")
        elif name.endswith("can't be written"):
            self.gates.open(f"{ours.name} {kind} {offset}", "fails")
        elif name.endswith("nobody confirms it"):
            self.gates.open(f"{ours.name} {kind} {offset}", "writes, in vain")
        elif "dies" in words:
            self._kill(ours)
        elif name.endswith("'s session ends"):
            self._end_session(ours)
        elif "expires" in words:
            self._expire(ours, offset)
        elif name.endswith("stop again"):
            self.loop.call(ours.stop_at_once)
        else:
            self.loop.call(ours.stop)

    def _is_stuck(self, ours: Ours) -> bool:
        """Whether it waits for something to be written."""
        return any(gate.startswith(ours.name) and " handler " not in gate for gate in self.gates.closed)

    def _pass_time(self, until: float) -> None:
        self.loop.pass_time(until)
        for ours in self.ours:
            if not ours.task.done():
                self.loop.call(ours.look_after)

    # --- the broker

    def _acknowledge(self, ours: Ours, *, has_response: bool) -> None:
        assert ours.acks is not None, "an event says so"
        ranges = ours.acks.take(renewals=False) or ()
        error = 0
        offsets = [
            (at, range_.types[0 if len(range_.types) == 1 else at - range_.first])
            for range_ in ranges
            for at in range(range_.first, range_.last + 1)
        ]
        if all(at in self.held and self.held[at].worker == ours.name for at, _ in offsets):
            for at, kind in offsets:
                self._settle(ours, at, kind)
        else:
            error = int(ErrorCode.INVALID_RECORD_STATE)
        if has_response:
            ours.acks.on_response(error)

    def _settle(self, ours: Ours, offset: int, kind: int) -> None:
        held = self.held.pop(offset)
        if kind == RELEASE:
            self.states[offset] = "free"
            return
        self.states[offset] = "accepted" if kind == ACCEPT else "rejected"
        if kind == ACCEPT and not held.is_finished:
            self.found.append(f"record {offset} was accepted, and its handler hasn't finished it")
        if kind == ACCEPT and (ours.name, "result", offset) not in self.confirmed:
            self.found.append(f"record {offset} was accepted before its result was confirmed")
        if kind == REJECT and (ours.name, "dead letter", offset) not in self.confirmed:
            self.found.append(f"record {offset} was rejected before its dead letter was confirmed")

    def _free(self, offset: int) -> Lease:
        held = self.held.pop(offset)
        self.states[offset] = "free"
        return held.lease

    def _end_session(self, ours: Ours) -> None:
        for offset in self._held_by(ours.name):
            self._free(offset)
        if ours.acks is not None:
            ours.acks.lose()

    def _expire(self, ours: Ours, offset: int) -> None:
        self._free(offset).deadline = self.loop.time()
        assert ours.acks is not None, "it has the record"
        ours.acks.expire(self.loop.time())

    def _kill(self, ours: Ours) -> None:
        for offset in self._held_by(ours.name):
            self._free(offset)
        ours.acks = None
        ours.task.cancel()
        with patch.object(ours, "_write", _never):
            self.loop.settle()
        self.ours[self.ours.index(ours)] = self._start(ours.name)

    # --- what is explored

    def problems(self) -> Iterable[str]:
        yield from self.found
        for ours in self.ours:
            limit = ours.limits.deliveries
            for offset in self._held_by(ours.name):
                if self.deliveries[offset] > limit:
                    yield f"record {offset} was delivered more than {limit} times"

    @property
    def is_done(self) -> bool:
        """All records are settled, and no worker has anything left to do."""
        return (
            {*self.states} <= {*_SETTLED}
            and not self.gates.closed
            and not any(ours.pipeline.queue.held or ours.slots.busy for ours in self.ours)
        )

    def problems_when_done(self) -> Iterable[str]:
        for offset, state in enumerate(self.states):
            what = "result" if state == "accepted" else "dead letter"
            if (what, offset) not in self.written:
                yield f"record {offset} is {state}, and its {what} is nowhere"

    def fingerprint(self) -> Hashable:
        orders = [self.ours, self.ours[::-1]] if len(self.ours) > 1 else [self.ours]
        return min((self._fingerprint(order) for order in orders), key=hash)

    def _fingerprint(self, order: Sequence[Ours]) -> Hashable:
        """Workers are alike, so their names make no difference. Records that are settled make none any more."""
        numbers = {ours.name: number for number, ours in enumerate(order)}
        return (
            tuple(self.states),
            tuple(0 if state in _SETTLED else self.deliveries[at] for at, state in enumerate(self.states)),
            tuple((at, numbers[held.worker], held.is_finished) for at, held in sorted(self.held.items())),
            frozenset(write for write in self.written if self.states[write[1]] not in _SETTLED),
            frozenset(
                (numbers[name], what, at)
                for name, what, at in self.confirmed
                if self.states[at] not in _SETTLED
            ),
            tuple(self._picture(ours) for ours in order),
            self.faults_left,
            self.failures_left,
        )

    def _picture(self, ours: Ours) -> Hashable:
        now, queue = self.loop.time(), ours.pipeline.queue
        return (
            ours.is_stopping,
            ours.is_told_again,
            ours.pipeline.executor.is_ending,
            tuple(gate[2:] for gate in self.gates.closed if gate.startswith(ours.name)),
            ours.acks is not None and (ours.acks.is_under_way, ours.acks.has_retries),
            tuple(
                (lease.first, bytes(lease.states), lease.delivery_count)
                for lease in (ours.acks.leases if ours.acks is not None else ())
            ),
            None if queue.next_due is None else round(queue.next_due - now, 1),
            queue.has_ready,
            tuple(sorted(_of_delivery(delivery, now) for delivery in queue.in_hand())),
            tuple(
                sorted(
                    (
                        _of_delivery(slot.delivery, now) if slot.delivery is not None else (),
                        slot.is_settling,
                        slot.has_ended,
                        slot.is_cancelled,
                    )
                    for slot in ours.slots.all
                )
            ),
            place_of(ours.task),
        )

    def maker(self) -> Callable[[], System] | None:
        return None

    def close(self) -> None:
        self.loop.end()


_SETTLED = ("accepted", "rejected")


def _of_delivery(delivery: Delivery, now: float) -> tuple[Any, ...]:
    return (
        delivery.record.offset,
        delivery.delivery_count,
        delivery.attempt,
        str(delivery.decision and delivery.decision.outcome),
        delivery.is_repeated,
        delivery.is_over,
        delivery.pending and delivery.pending.outcome,
        delivery.refusals,
        round(delivery.pending_at - now, 1) if delivery.pending_at else 0.0,
        len(delivery.results or ()),
    )


async def _never(what: str, value: bytes | None) -> None:
    """A process that is dead writes nothing."""
    raise KshareError("it is dead")
