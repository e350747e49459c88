"""The share coordinator: fencing, and restoring all states from the log."""

from __future__ import annotations

import pytest

from kshare.broker.broker import Broker
from kshare.broker.clock import ManualClock
from kshare.broker.request_error import RequestError
from kshare.broker.share_state.coordinator import ShareCoordinator
from kshare.broker.share_state.share_state import StateUpdate
from kshare.broker.share_state.state_batches import StateBatch
from kshare.protocol.error_codes import ErrorCode

PER_SNAPSHOT = 10


class Stage:
    def __init__(self) -> None:
        settings = {
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.snapshot.update.records.per.snapshot": str(PER_SNAPSHOT),
        }
        self.broker = Broker(clock=ManualClock(), settings=settings)
        self.topic = self.broker.cluster.create_topic("orders", 2)
        self.key = ("group", self.topic.id, 0)
        self.states = self.broker.share_states

    def restarted(self) -> ShareCoordinator:
        """Another coordinator that knows only the log."""
        broker = self.broker
        return ShareCoordinator(broker.cluster, broker.configs, broker.clock, broker.counters)

    def refusal(self, said: StateUpdate) -> ErrorCode:
        with pytest.raises(RequestError) as caught:
            self.states.write(self.key, said)
        return caught.value.code


def test_uninitialized_states_cannot_be_read_or_written() -> None:
    stage = Stage()
    assert stage.refusal(StateUpdate(0, 0, 0, 0)) == ErrorCode.INVALID_REQUEST
    with pytest.raises(RequestError):
        stage.states.read(stage.key, 0)
    assert stage.states.summary(stage.key).start == -1


def test_outdated_state_epochs_and_leader_epochs_are_fenced() -> None:
    stage = Stage()
    stage.states.initialize(stage.key, 5, 0)
    with pytest.raises(RequestError) as caught:
        stage.states.initialize(stage.key, 4, 0)
    assert caught.value.code == ErrorCode.FENCED_STATE_EPOCH
    stage.states.read(stage.key, 3)
    assert stage.refusal(StateUpdate(5, 2, 0, 0)) == ErrorCode.FENCED_LEADER_EPOCH
    assert stage.refusal(StateUpdate(4, 3, 0, 0)) == ErrorCode.FENCED_STATE_EPOCH
    stage.states.initialize(stage.key, 6, 0)
    assert stage.refusal(StateUpdate(6, 2, 0, 0)) == ErrorCode.FENCED_LEADER_EPOCH
    stage.states.write(stage.key, StateUpdate(6, 3, 0, 0))


def test_states_are_restored_from_the_log() -> None:
    stage = Stage()
    stage.states.initialize(stage.key, 1, 0)
    stage.states.read(stage.key, 2)
    for number in range(3 * PER_SNAPSHOT + 4):
        batch = StateBatch(number + 1, number + 1, 2 * (number % 2), 1 + number % 3)
        stage.states.write(stage.key, StateUpdate(1, 2, number // 2, number % 5, (batch,)))
        assert stage.restarted().summary(stage.key) == stage.states.summary(stage.key)
    again = stage.restarted()
    with pytest.raises(RequestError):
        again.read(stage.key, 1)
    assert again.read(stage.key, 2).batches == stage.states.read(stage.key, 2).batches


def test_tombstones_are_restored_from_the_log() -> None:
    stage = Stage()
    stage.states.initialize(stage.key, 1, 7)
    stage.states.delete(stage.key)
    assert stage.restarted().summary(stage.key).start == -1
    stage.states.initialize(stage.key, 0, 9)
    assert stage.restarted().summary(stage.key).start == 9


def test_deleted_states_are_no_longer_snapshotted_after_a_restart() -> None:
    stage = Stage()
    other = ("group", stage.topic.id, 1)
    stage.states.initialize(stage.key, 1, 0)
    stage.states.initialize(other, 1, 0)
    stage.states.delete(other)
    again = stage.restarted()
    again.read(stage.key, 0)
    clock = stage.broker.clock
    assert isinstance(clock, ManualClock)
    clock.advance(400_000)
    again.initialize(stage.key, 2, 0)
    log = stage.broker.cluster.topics["__share_group_state"].partitions[0].log
    assert log.start_offset == log.end_offset - 1


def test_records_before_the_oldest_snapshot_are_pruned() -> None:
    stage = Stage()
    other = ("group", stage.topic.id, 1)
    stage.states.initialize(stage.key, 1, 0)
    stage.states.initialize(other, 1, 0)
    log = stage.broker.cluster.coordinating_partition(2, "any").log
    for number in range(5 * PER_SNAPSHOT):
        stage.states.write(stage.key, StateUpdate(1, 0, number, 0))
    assert log.start_offset == 1  # the other key's only snapshot
    for number in range(PER_SNAPSHOT):
        stage.states.write(other, StateUpdate(1, 0, number, 0))
    assert log.start_offset > 4 * PER_SNAPSHOT
    assert stage.restarted().summary(other).start == PER_SNAPSHOT - 1


@pytest.mark.lengthy
def test_idle_states_are_snapshotted_periodically() -> None:
    """Otherwise, nothing after the old snapshot could ever be pruned."""
    stage = Stage()
    cold = ("group", stage.topic.id, 1)
    stage.states.initialize(cold, 1, 7)
    stage.states.initialize(stage.key, 1, 0)
    stage.states.read(stage.key, 2)
    log = stage.broker.cluster.topics["__share_group_state"].partitions[0].log
    for number in range(3 * PER_SNAPSHOT):
        stage.states.write(stage.key, StateUpdate(1, 2, number, 0))
    assert log.start_offset == 0
    known = stage.states.summary(cold)
    clock = stage.broker.clock
    assert isinstance(clock, ManualClock)
    clock.advance(10 * 60 * 1000 + 1)
    assert log.start_offset > 3 * PER_SNAPSHOT
    assert stage.states.summary(cold).start == known.start
    assert stage.restarted().summary(cold).start == 7
    end = log.end_offset
    clock.advance(60 * 60 * 1000)
    assert log.end_offset == end, "nothing is left to prune, so no snapshot was needed"


def test_what_was_not_flushed_is_lost_but_for_snapshots() -> None:
    stage = Stage()
    stage.states.initialize(stage.key, 0, 0)
    clock = stage.broker.clock
    assert isinstance(clock, ManualClock)
    home = stage.broker.cluster.coordinating_partition(2, "any")
    stage.states.write(stage.key, StateUpdate(0, 0, 3, 0))
    clock.advance(100)
    stage.states.write(stage.key, StateUpdate(0, 0, 5, 0, (StateBatch(7, 8, 2, 1),)))
    assert stage.states.lose_since(home, clock.now() + 1) == set()
    assert stage.states.summary(stage.key).start == 5
    assert stage.states.lose_since(home, clock.now()) == {stage.key}
    found = stage.states.summary(stage.key)
    assert (found.start, found.batches) == (3, [])
    stage.states.read(stage.key, 1)  # stores a snapshot
    assert stage.states.lose_since(home, 0) == set()
    assert stage.states.summary(stage.key).start == 3
