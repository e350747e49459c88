"""The share-partition compared with a model that has no batches: one small dictionary for each record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings, strategies
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from kshare.broker.request_error import RequestError
from kshare.broker.share_state.state_batches import StateBatch
from kshare.broker.shares.delivery import GroupLimits, RecordState
from kshare.broker.shares.share_partition import AckRange, Change, SharePartition
from kshare.protocol.acknowledge_types import AcknowledgeType

MEMBERS = strategies.sampled_from(["one", "two", "three"])
OFFSETS = strategies.integers(0, 70)
FREE, HELD, DONE = "free", "held", "done"


class AgainstAModel(RuleBasedStateMachine):
    """Acquired records were available, have one holder, and end as acknowledged or when the lock expires."""

    @initialize(
        sizes=strategies.lists(strategies.integers(1, 9), min_size=3, max_size=12),
        limit=strategies.integers(2, 6),
        in_flight=strategies.integers(5, 60),
    )
    def begin(self, sizes: list[int], limit: int, in_flight: int) -> None:
        self.limits = GroupLimits(limit, 100, in_flight)
        self.shared = SharePartition(0)
        self.spans: list[tuple[int, int]] = []
        for size in sizes:
            first = self.spans[-1][1] + 1 if self.spans else 0
            self.spans.append((first, first + size - 1))
        self.log_start = 0
        self.now = 0
        self.records: dict[int, dict[str, Any]] = {
            offset: {"state": FREE, "count": 0} for offset in range(self.spans[-1][1] + 1)
        }

    @rule(
        member=MEMBERS,
        most=strategies.integers(1, 40),
        batch_size=strategies.integers(1, 20),
        strict=strategies.booleans(),
    )
    def acquire(self, member: str, most: int, batch_size: int, strict: bool) -> None:
        begin = self.shared.window.next_available()
        open_end = self.shared.window.end
        spans = [span for span in self.spans if span[1] >= begin]
        acquired = self.shared.acquire(
            member,
            spans,
            max_records=most,
            batch_size=batch_size,
            is_strict=strict,
            limits=self.limits,
            now=self.now,
        )
        offsets = [offset for each in acquired for offset in range(each.first, each.last + 1)]
        assert offsets == sorted(set(offsets))
        if strict:
            assert len(offsets) <= most
        if offsets:
            # The first available record is acquired first, and a full window doesn't grow.
            assert offsets[0] == min(o for o, r in self.records.items() if r["state"] == FREE)
            if open_end - self.shared.window.start >= self.limits.in_flight:
                assert offsets[-1] < open_end
        for each in acquired:
            for offset in range(each.first, each.last + 1):
                record = self.records[offset]
                assert record["state"] == FREE
                record |= {"state": HELD, "by": member, "until": self.now + 100}
                record["count"] += 1
                assert record["count"] == each.count <= self.limits.deliveries

    @rule(member=MEMBERS, first=OFFSETS, size=strategies.integers(1, 12), data=strategies.data())
    def acknowledge(self, member: str, first: int, size: int, data: strategies.DataObject) -> None:
        last = first + size - 1
        kinds = data.draw(
            strategies.one_of(
                strategies.sampled_from(AcknowledgeType).map(lambda kind: (kind,)),
                strategies.lists(strategies.sampled_from(AcknowledgeType), min_size=size, max_size=size).map(
                    tuple
                ),
            )
        )
        said = AckRange(first, last, kinds)
        meant = range(max(first, self.shared.start_offset), last + 1)
        is_allowed = all(self._is_held(offset, member) for offset in meant)
        try:
            change = self.shared.acknowledge(member, [said], self.limits)
        except RequestError:
            assert not is_allowed
            return
        assert is_allowed
        self._apply(change)
        for offset in meant:
            self._settle(offset, said.kind_of(offset))

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        self._apply(self.shared.release(member, self.limits))
        for offset in self.records:
            if self._is_held(offset, member):
                self._settle(offset, AcknowledgeType.RELEASE)

    @rule(step=strategies.integers(1, 120))
    def wait(self, step: int) -> None:
        self.now += step
        self._apply(self.shared.expire(self.now, self.limits))
        for offset, record in self.records.items():
            if record["state"] == HELD and record["until"] <= self.now:
                self._settle(offset, AcknowledgeType.RELEASE)

    @rule()
    def restart(self) -> None:
        """A new leader knows what was written: delivery counts, but no locks."""
        self._apply(self.shared.release("one", self.limits))
        self._apply(self.shared.release("two", self.limits))
        self._apply(self.shared.release("three", self.limits))
        for offset, record in self.records.items():
            if record["state"] == HELD:
                self._settle(offset, AcknowledgeType.RELEASE)
        rows = [
            StateBatch(first, last, delivery.state, delivery.count)
            for first, last, delivery in self.shared.window.runs()
        ]
        self.shared = SharePartition(self.shared.start_offset, rows)

    @invariant()
    def agrees(self) -> None:
        window = self.shared.window
        for first, last, delivery in window.runs():
            for offset in range(max(first, window.start), last + 1):
                record = self.records[offset]
                assert delivery.count == record["count"]
                expected = {FREE: RecordState.AVAILABLE, HELD: RecordState.ACQUIRED}.get(record["state"])
                assert delivery.state == expected if expected is not None else delivery.state.is_final
        for offset, record in self.records.items():
            if offset < window.start:
                assert record["state"] == DONE
            elif offset >= window.end:
                assert (record["state"], record["count"]) == (FREE, 0)
        first_open = next((o for o, r in self.records.items() if r["state"] != DONE), None)
        if first_open is not None:
            assert window.start == first_open

    def _is_held(self, offset: int, member: str) -> bool:
        record = self.records.get(offset)
        return record is not None and record["state"] == HELD and record["by"] == member

    def _settle(self, offset: int, kind: AcknowledgeType) -> None:
        record = self.records[offset]
        if kind is AcknowledgeType.RENEW:
            record["until"] = self.now + 100
        elif kind is AcknowledgeType.RELEASE and record["count"] < self.limits.deliveries:
            record["state"] = FREE
        else:
            record["state"] = DONE

    def _apply(self, change: Change) -> None:
        self.shared.apply(change, self.now, self.limits)


AgainstAModel.TestCase.settings = settings(max_examples=60, stateful_step_count=100)
"""About 5,000 steps in total."""
TestAgainstAModel = AgainstAModel.TestCase


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_steps() -> None:
    longer = settings(max_examples=1000, stateful_step_count=150)
    run_state_machine_as_test(AgainstAModel, settings=longer)
