"""Records that stay locked until their partition's pause is over."""

from __future__ import annotations

import math

from kshare.state.kept_records import KeptRecords
from kshare.state.lease import ACCEPT, RELEASE, RENEW, Lease

PARTITION = (b"t" * 16, 0)


def test_kept_records_are_due_once() -> None:
    kept, lease = KeptRecords(), Lease(PARTITION, 10, 19, 1)
    assert (kept.held, kept.wake_at) == (0, math.inf)
    kept.add(lease, [(10, 12), (15, 15)], 5.0)
    kept.add(Lease(PARTITION, 20, 20, 1), [(20, 20)], 7.0)
    assert (kept.held, kept.wake_at) == (5, 5.0)
    assert kept.take_due(4.9) == []
    (due,) = kept.take_due(5.0)
    assert (due.lease, due.spans, due.held) == (lease, ((10, 12), (15, 15)), 4)
    assert (kept.held, kept.wake_at) == (1, 7.0)
    assert kept.take_due(6.9) == []


def test_only_what_is_still_held_counts() -> None:
    kept, lease = KeptRecords(), Lease(PARTITION, 0, 9, 1)
    kept.add(lease, [(0, 4)], 5.0)
    lease.decide(0, RELEASE)
    lease.decide(7, ACCEPT)
    lease.decide_held(RENEW)
    assert kept.held == 4
    kept.forget_lost()
    assert kept.held == 4
    lease.lose()
    assert kept.held == 0
    kept.forget_lost()
    assert kept.wake_at == math.inf
