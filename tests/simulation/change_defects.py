"""Defects to plant that only a world that changes can find."""

from __future__ import annotations

from typing import Any

from kshare.state.cluster import ClusterView
from kshare.state.lease_timers import LeaseTimers
from tests.simulation.planting import Defect, replace


def the_first_lock_duration_is_kept() -> None:
    add, firsts = LeaseTimers.add, dict[LeaseTimers, float]()

    def add_with_first(timers: LeaseTimers, lease: Any, lock_s: float, sent_at: float, size: int = 0) -> None:
        add(timers, lease, firsts.setdefault(timers, lock_s), sent_at, size)

    replace(LeaseTimers, "add", add_with_first)


def renewals_last_as_long_as_the_first_lock() -> None:
    on_renewed = LeaseTimers.on_renewed

    def renewed(timers: LeaseTimers, lease: Any, sent_at: float, lock_s: float = 0.0) -> None:
        on_renewed(timers, lease, sent_at)

    replace(LeaseTimers, "on_renewed", renewed)


def topics_that_are_created_again_are_ignored() -> None:
    known, firsts = ClusterView._on_known, dict[ClusterView, dict[str, bytes]]()

    def on_known(cluster: ClusterView, name: str, topic: Any, now: float) -> Any:
        first = firsts.setdefault(cluster, {}).setdefault(name, topic.topic_id)
        return known(cluster, name, topic, now) if topic.topic_id == first else []

    replace(ClusterView, "_on_known", on_known)


DEFECTS = [
    Defect(plant, world, finding, what, seed, has_changes=True)
    for plant, world, finding, what, seed in (
        (
            the_first_lock_duration_is_kept,
            "consumers",
            "handed late",
            "goes on with the first duration of locks when the group's setting has changed",
            1,
        ),
        (
            renewals_last_as_long_as_the_first_lock,
            "consumers",
            "handed late",
            "takes renewed locks for as long as they were when their records were fetched",
            1,
        ),
        (
            topics_that_are_created_again_are_ignored,
            "consumers",
            "left",
            "doesn't read a topic that was deleted and created again",
            62,
        ),
    )
]
