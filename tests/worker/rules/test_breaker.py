"""The circuit breaker: when it opens, how it probes, and that it agrees with a simple model."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from kshare import ConfigError
from kshare.worker.rules.breaker import Breaker, BreakerMachine, BreakerState

SETTINGS = Breaker(failing_share=0.5, min_failures=3, window=10, probe_after=2)


def opened(at: float = 100.0) -> BreakerMachine:
    machine = BreakerMachine(SETTINGS)
    for _ in range(3):
        machine.on_failure(at, 0)
    assert machine.state is BreakerState.OPEN
    return machine


def test_few_failures_do_not_open_it() -> None:
    machine = BreakerMachine(SETTINGS)
    machine.on_failure(100, 0)
    machine.on_failure(101, 0)
    assert machine.is_closed
    assert machine.may_start(102)


def test_failures_among_many_successes_do_not_open_it() -> None:
    machine = BreakerMachine(SETTINGS)
    for succeeded in range(0, 100, 2):
        machine.on_failure(100 + succeeded / 100, succeeded)
    assert machine.is_closed


def test_successes_before_the_first_failure_do_not_count() -> None:
    machine = BreakerMachine(SETTINGS)
    for _ in range(3):
        machine.on_failure(101, 90)
    assert machine.state is BreakerState.OPEN


def test_successes_while_a_run_took_too_long_count() -> None:
    machine = BreakerMachine(SETTINGS)
    for number in range(3):
        machine.on_timed_out(101, 90, number, before=0)
    assert machine.is_closed
    for number in range(3):
        machine.on_timed_out(112, 92, number, before=90)  # and those of the window before
    assert machine.is_closed
    for number in range(3):
        machine.on_timed_out(140, 92, number, before=92)
    assert machine.state is BreakerState.OPEN


def test_records_in_a_row_that_take_too_long_open_it_however_long_that_is() -> None:
    machine = BreakerMachine(Breaker())
    assert machine.on_timed_out(300, 7, "a", before=7)
    assert machine.on_timed_out(600, 7, "b", before=7)
    assert not machine.on_timed_out(900, 7, "c", before=7)
    assert machine.state is BreakerState.OPEN


def test_one_record_that_takes_too_long_again_and_again_does_not_open_it() -> None:
    machine = BreakerMachine(Breaker())
    for attempt in range(20):
        machine.on_timed_out(300 * attempt, 7, "a", before=7, is_first=attempt == 0)
    assert machine.is_closed


@pytest.mark.parametrize("during", [True, False], ids=["during one", "between two"])
def test_a_success_ends_the_row(during: bool) -> None:
    machine = BreakerMachine(Breaker())
    machine.on_timed_out(300, 7, "a", before=7)
    machine.on_timed_out(600, 7, "b", before=7)
    machine.on_timed_out(900, 8, "c", before=7 if during else 8)
    machine.on_timed_out(1200, 8, "d", before=8)
    assert machine.is_closed
    machine.on_timed_out(1500, 8, "e", before=8)
    machine.on_timed_out(1800, 8, "f", before=8)
    assert machine.state is BreakerState.OPEN


def test_fewer_records_in_a_row_are_enough_if_fewer_failures_are() -> None:
    machine = BreakerMachine(Breaker(min_failures=2))
    machine.on_timed_out(300, 0, "a", before=0, is_first=False)
    machine.on_timed_out(600, 0, "b", before=0, is_first=False)
    assert machine.state is BreakerState.OPEN


def test_failures_long_ago_do_not_count() -> None:
    machine = BreakerMachine(SETTINGS)
    for at in (100, 121, 142, 163):
        machine.on_failure(at, 0)
    assert machine.is_closed


def test_failures_of_the_window_before_count() -> None:
    machine = BreakerMachine(SETTINGS)
    for at in (100, 109, 112):
        machine.on_failure(at, 0)
    assert machine.state is BreakerState.OPEN


def test_further_attempts_of_a_record_do_not_open_it() -> None:
    machine = BreakerMachine(SETTINGS)
    for at in range(10):
        assert machine.on_failure(100 + at, 0, is_first=False)
    assert machine.is_closed


def test_failures_count_as_attempts_only_while_it_is_closed_or_has_been_open_for_long() -> None:
    machine = BreakerMachine(Breaker(min_failures=2, patience=60))
    assert machine.on_failure(100, 0)
    assert not machine.on_failure(100, 0), "it has opened"
    assert not machine.on_failure(160, 0)
    assert machine.may_start(160)
    assert machine.on_failure(161, 0)
    assert machine.state is BreakerState.OPEN


def test_one_probe_at_a_time_after_a_pause() -> None:
    machine = opened(100)
    assert not machine.may_start(101.9)
    assert machine.may_start(102)
    assert machine.state is BreakerState.HALF_OPEN
    assert not machine.may_start(200)


def test_successful_probe_closes_it() -> None:
    machine = opened(100)
    assert machine.may_start(102)
    machine.on_success(1)
    assert machine.is_closed
    machine.on_failure(103, 1)
    assert machine.is_closed


def test_failed_probe_opens_it_again() -> None:
    machine = opened(100)
    assert machine.may_start(102)
    machine.on_failure(103, 0)
    assert (machine.state, machine.probe_at, machine.opened) == (BreakerState.OPEN, 105, 1)


def test_probe_without_a_result_is_repeated_at_once() -> None:
    machine = opened(100)
    assert machine.may_start(102)
    machine.on_no_result(103)
    assert machine.may_start(103)


def test_results_of_runs_that_began_before_do_not_matter_while_it_is_open() -> None:
    machine = opened(100)
    machine.on_success(5)
    machine.on_failure(101, 5)
    machine.on_no_result(101)
    assert (machine.state, machine.probe_at, machine.opened) == (BreakerState.OPEN, 102, 1)


@pytest.mark.parametrize(
    "options",
    [
        {"failing_share": 0},
        {"failing_share": 1.1},
        {"min_failures": 0},
        {"min_failures": 1.5},
        {"window": 0},
        {"probe_after": 0},
        {"patience": -1},
    ],
)
def test_invalid_settings_are_refused(options: Mapping[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        Breaker(**options)  # type: ignore[arg-type]


class AgainstModel(RuleBasedStateMachine):
    """The model remembers all failures since the breaker was closed.

    The machine counts in windows that begin with a failure, so it looks back one window at least, and two at most.
    """

    def __init__(self) -> None:
        super().__init__()
        self.machine = BreakerMachine(SETTINGS)
        self.now, self.succeeded = 1000.0, 0
        self.failures: list[tuple[float, int]] = []
        """When, and after how many successes."""
        self.is_probing = False

    @rule(seconds=st.sampled_from([0.1, 1.0, 4.0, 11.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(count=st.integers(1, 20))
    def succeed(self, count: int) -> None:
        if self.machine.is_closed:  # afterwards only a probe runs
            self.succeeded += count

    @rule()
    def fail(self) -> None:
        if not self.machine.is_closed:
            return
        self.failures.append((self.now, self.succeeded))
        self.machine.on_failure(self.now, self.succeeded)
        longest = [at for at, _ in self.failures if at >= self.now - 2 * SETTINGS.window]
        shortest = [before for at, before in self.failures if at > self.now - SETTINGS.window]
        if len(longest) < SETTINGS.min_failures:
            assert self.machine.is_closed
        if len(shortest) >= SETTINGS.min_failures and not self.succeeded:
            assert self.machine.state is BreakerState.OPEN
        # The most failures that it may count, and the fewest successes.
        succeeded = self.succeeded - shortest[0]
        if len(longest) < SETTINGS.failing_share * (len(longest) + succeeded):
            assert self.machine.is_closed

    @rule()
    def start(self) -> None:
        state = self.machine.state
        may = self.machine.may_start(self.now)
        if state is BreakerState.CLOSED:
            assert may
        elif state is BreakerState.OPEN:
            assert may is (self.now >= self.machine.probe_at)
            self.is_probing = may
        else:
            assert not may

    @rule(result=st.sampled_from(["success", "failure", "none"]))
    def end_probe(self, result: str) -> None:
        if not self.is_probing:
            return
        self.is_probing = False
        if result == "success":
            self.succeeded += 1
            self.machine.on_success(self.succeeded)
            assert self.machine.is_closed
            self.failures = []
        elif result == "failure":
            self.machine.on_failure(self.now, self.succeeded)
            assert self.machine.probe_at == self.now + SETTINGS.probe_after
        else:
            self.machine.on_no_result(self.now)
            assert self.machine.probe_at == self.now

    @invariant()
    def half_open_means_probing(self) -> None:
        assert (self.machine.state is BreakerState.HALF_OPEN) is self.is_probing


@pytest.mark.lengthy
def test_agrees_with_a_simple_model() -> None:
    run_state_machine_as_test(AgainstModel)
