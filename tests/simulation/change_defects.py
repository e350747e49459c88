"""Defects to plant that only a world that changes can find."""

from __future__ import annotations

from typing import Any

from kshare.engine import lease_book
from kshare.engine.lease_reports import outcome_error
from kshare.protocol.error_codes import ErrorCode
from kshare.state.acks import AckOutcome
from kshare.state.cluster import ClusterView
from tests.simulation.planting import Defect, replace


def what_was_in_a_deleted_topic_is_confirmed() -> None:
    def error(outcome: AckOutcome) -> Any:
        return None if outcome.error == ErrorCode.UNKNOWN_TOPIC_ID else outcome_error(outcome)

    replace(lease_book, "outcome_error", error)


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
            what_was_in_a_deleted_topic_is_confirmed,
            "consumers",
            "confirmed falsely",
            "tells accepts as confirmed though their topic was deleted",
            85,
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
