"""Two workers that call, crash, fail and come late, in any order and on every store: results never contradict."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, cast

import anyio
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from kshare.errors import ClaimLost, InProgress
from kshare.idempotency import ClaimState
from kshare.idempotency.guard import Guard, Ticket
from tests.idempotency.harnesses import KINDS, Harness, harness, redis_harness

CLAIM_S, KEEP_S = 60.0, 1000.0
WORKERS = ("anne", "bert")
KEYS = st.sampled_from(["order 1", "order 1", "order 1", "order 2"])


class Call(NamedTuple):
    key: str
    ticket: Ticket
    expires: float
    effect: int
    """What the function has done, and returns."""


class Workers(RuleBasedStateMachine):
    """Steps of the decorator, one by one. A crash is possible between any two, and is that nothing follows."""

    def __init__(self, made: Harness) -> None:
        super().__init__()
        self.made = made
        self.guard = Guard(
            made.store,
            "f",
            key=str,
            in_progress_timeout=CLAIM_S,
            keep=KEEP_S,
            wait=0,
            serialize=lambda effect: b"%d" % effect,
            deserialize=int,
        )
        self.now = 0.0
        self.calls: dict[str, Call] = {}
        self.crashed_until: dict[str, float] = {}
        """Key → when the last claim expires that a worker died with."""
        self.effects = 0
        self.stored: dict[str, tuple[int, float]] = {}
        """Key → the result that all calls must return, and until when."""

    def result_of(self, key: str) -> int | None:
        effect, until = self.stored.get(key, (0, -1.0))
        return effect if until > self.now else None

    def owners_of(self, key: str) -> list[str]:
        """The workers with a claim that hasn't expired."""
        return [worker for worker, call in self.calls.items() if call.key == key and call.expires > self.now]

    @precondition(lambda self: len(self.calls) < len(WORKERS))
    @rule(data=st.data(), key=KEYS)
    def begin(self, data: st.DataObject, key: str) -> None:
        worker = data.draw(st.sampled_from([name for name in WORKERS if name not in self.calls]))
        ticket = self.guard.ticket((key,), {})
        try:
            response = anyio.run(self.guard.claim, ticket)
        except InProgress:
            assert self.result_of(key) is None
            assert self.crashed_until.get(key, 0) > self.now or self.owners_of(key)
            return
        if response.state is ClaimState.DONE:
            assert self.guard.stored_result(response) == self.result_of(key)
            return
        assert self.result_of(key) is None
        assert not self.owners_of(key)
        self.effects += 1
        self.calls[worker] = Call(key, ticket, self.now + CLAIM_S, self.effects)

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        call = self.pop(data)
        try:
            anyio.run(self.guard.finish, call.ticket, call.effect)
        except ClaimLost:
            assert call.expires <= self.now
            return
        assert self.result_of(call.key) is None
        assert not self.owners_of(call.key)
        self.stored[call.key] = (call.effect, self.now + KEEP_S)

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), has_crashed=st.booleans())
    def fail(self, data: st.DataObject, has_crashed: bool) -> None:
        call = self.pop(data)
        if has_crashed:
            self.crashed_until[call.key] = max(call.expires, self.crashed_until.get(call.key, 0))
        else:
            anyio.run(self.guard.abandon, call.ticket, ValueError())

    def pop(self, data: st.DataObject) -> Call:
        """A call that ends."""
        return self.calls.pop(data.draw(st.sampled_from(sorted(self.calls))))

    @rule(seconds=st.sampled_from([10.0, CLAIM_S, CLAIM_S, KEEP_S]))
    def wait(self, seconds: float) -> None:
        self.made.advance(seconds)
        self.now += seconds

    @rule()
    def purge(self) -> None:
        anyio.run(self.made.store.purge)


def _run(machine: Callable[[], Workers]) -> None:
    # Hypothesis calls this to make a machine, so a function will do.
    run_state_machine_as_test(
        cast("type[Workers]", machine), settings=settings(max_examples=100, stateful_step_count=40)
    )


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", KINDS)
def test_results_never_contradict(kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        number = 0

        def machine() -> Workers:
            nonlocal number
            number += 1
            place = Path(folder, str(number))
            place.mkdir()
            return _Opened(harness(kind, place))

        _run(machine)


@pytest.mark.lengthy
@pytest.mark.redis
def test_results_never_contradict_in_redis(redis_url: str) -> None:
    _run(lambda: _Opened(redis_harness(redis_url)))


class _Opened(Workers):
    """Closes its store at the end."""

    def __init__(self, opening: AbstractContextManager[Harness]) -> None:
        self.opening = opening
        super().__init__(opening.__enter__())

    def teardown(self) -> None:
        self.opening.__exit__(None, None, None)
