"""Deadlines, renewals and losses of leases, with a manual clock."""

from __future__ import annotations

import math

import pytest

from kshare.state.lease import ACCEPT, Lease
from kshare.state.lease_timers import LeaseTimers

P = (b"t" * 16, 0)


def lease_timers(*, can_renew: bool = True, max_lease_s: float = 100.0) -> tuple[LeaseTimers, Lease]:
    made = LeaseTimers(can_renew=can_renew, max_lease_s=max_lease_s)
    lease = Lease(P, 0, 9, 1)
    made.add(lease, lock_s=30.0, sent_at=0.0)
    return made, lease


def test_deadline_is_a_little_before_the_lock_expires() -> None:
    _, lease = lease_timers()
    assert lease.deadline == pytest.approx(28.5)


def test_nothing_is_due_before_two_thirds_of_the_lock() -> None:
    made, lease = lease_timers()
    made.hand_out(lease, now=1.0)
    assert made.wake_at == pytest.approx(20.0)
    assert made.due(now=19.9).renew == []
    assert made.due(now=20.0).renew == [lease]


def test_handed_out_lease_is_renewed_repeatedly() -> None:
    made, lease = lease_timers()
    made.hand_out(lease, now=0.0)
    now = 0.0
    for _ in range(3):
        now += 20.0
        assert made.due(now).renew == [lease]
        made.on_renewed(lease, now)
        assert lease.deadline == pytest.approx(now + 28.5)


def test_records_that_were_acquired_one_by_one_are_renewed_in_few_requests() -> None:
    made = LeaseTimers(can_renew=True, max_lease_s=100.0)
    leases = [Lease(P, offset, offset, 1) for offset in range(600)]
    for lease in leases:
        made.add(lease, lock_s=30.0, sent_at=lease.first * 0.03)
        made.hand_out(lease, now=lease.first * 0.03)
    renewed: list[list[Lease]] = []
    while (now := made.wake_at) < 80.0:
        due = made.due(now)
        assert all(lease.deadline > now + 30.0 * 0.2 for lease in due.renew), (
            "there is time for a second attempt"
        )
        for lease in due.renew:
            made.on_renewed(lease, now)
        renewed.append(due.renew)
    assert len(renewed) <= 3 * 13
    for lease in leases:
        assert sum(lease in group for group in renewed) == 3


def test_what_cannot_be_renewed_for_longer_is_said_once_however_many_are_due() -> None:
    made = LeaseTimers(can_renew=True, max_lease_s=15.0)
    old, new = Lease(P, 0, 0, 1), Lease(P, 1, 1, 1)
    for lease, at in ((old, 0.0), (new, 8.0)):
        made.add(lease, lock_s=30.0, sent_at=at)
        made.hand_out(lease, now=at)
    given_up = [lease for now in range(60) for lease in made.due(float(now)).not_renewable]
    assert given_up == [old, new]


def test_a_renewed_lock_has_the_duration_that_the_broker_says_then() -> None:
    made, lease = lease_timers()
    made.hand_out(lease, now=0.0)
    assert made.due(now=20.0).renew == [lease]
    made.on_renewed(lease, sent_at=20.0, lock_s=10.0)
    assert lease.deadline == pytest.approx(29.5)
    assert made.due(now=27.0).renew == [lease]
    made.on_renewed(lease, sent_at=27.0)  # the broker doesn't say
    assert lease.deadline == pytest.approx(36.5)


def test_unconfirmed_renewal_is_repeated_once() -> None:
    made, lease = lease_timers()
    made.hand_out(lease, now=0.0)
    assert made.due(now=20.0).renew == [lease]
    assert made.wake_at == pytest.approx(24.25)
    assert made.due(now=24.25).renew == [lease]


def test_renewals_end_at_the_maximum() -> None:
    made, lease = lease_timers(max_lease_s=50.0)
    made.hand_out(lease, now=0.0)
    for now in (20.0, 40.0):
        assert made.due(now).renew == [lease]
        made.on_renewed(lease, now)
    due = made.due(now=60.0)
    assert (due.renew, due.not_renewable) == ([], [lease])
    assert made.due(now=61.0).not_renewable == []


def test_without_renewals_the_lease_is_not_renewable_at_once() -> None:
    made, lease = lease_timers(can_renew=False)
    made.hand_out(lease, now=0.0)
    assert made.due(now=20.0).not_renewable == [lease]


def test_rule_9_waiting_lease_is_released() -> None:
    made, lease = lease_timers()
    assert made.due(now=20.0).release == [lease]


def test_rule_9_expired_lease_is_not_handed_out() -> None:
    made, lease = lease_timers()
    assert not made.hand_out(lease, now=28.5)
    made.remove([lease])
    assert not made.hand_out(lease, now=1.0)


def test_decided_lease_is_not_renewed() -> None:
    made, lease = lease_timers()
    made.hand_out(lease, now=0.0)
    lease.decide_held(ACCEPT)
    due = made.due(now=20.0)
    assert (due.renew, due.release, due.not_renewable) == ([], [], [])


def test_removed_lease_has_no_timer() -> None:
    made, lease = lease_timers()
    made.remove([lease])
    assert len(made) == 0
    assert made.wake_at == math.inf
    made.on_renewed(lease, sent_at=1.0)
    assert lease.deadline == pytest.approx(28.5)


def test_wake_at_may_be_early_but_never_late() -> None:
    made, first = lease_timers()
    second = Lease(P, 10, 19, 1)
    made.add(second, lock_s=30.0, sent_at=5.0)
    made.hand_out(second, now=5.0)
    made.remove([first])
    assert made.wake_at <= 25.0
    assert made.due(now=20.0).release == []
    assert made.wake_at == pytest.approx(25.0)
    made.on_suspended(3.0)
    assert made.wake_at == pytest.approx(22.0)
    assert made.due(now=22.0).renew == [second]
    assert made.wake_at == pytest.approx((22.0 + second.deadline) / 2)


def test_bytes_of_records_that_nobody_can_get_are_not_held() -> None:
    """Otherwise one damaged batch of `max_bytes` would stop the fetches of all partitions for as long as it is kept."""
    made, _ = lease_timers()
    damaged = Lease(P, 10, 19, 1)
    made.add(damaged, lock_s=30.0, sent_at=0.0, size=1_000)
    assert made.bytes_held(1_000) == 1_000
    made.keep(damaged)
    assert made.bytes_held(1_000) == 0
    assert made.due(now=20.0).renew == [damaged]
    made.remove([damaged])
    assert made.bytes_held(1_000) == 0
