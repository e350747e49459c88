"""All metrics, and which of them an event changes: the one list that every adapter uses.

Labels have few values: topics, Kafka's error names, acknowledgement types. Never offsets, partitions, members or free
text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from kshare.engine.events import (
    Acknowledged,
    Acquired,
    Assigned,
    Damaged,
    Event,
    Fetched,
    Finished,
    GivenBack,
    LeaseLost,
    LeaseRenewed,
    Poisoned,
    Refused,
    Responded,
    SessionEnded,
    Skipped,
)


class MetricKind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    name: str
    kind: MetricKind
    unit: str
    """As in UCUM, the unified code for units of measure: s, By, {record}."""
    about: str
    labels: tuple[str, ...] = ()


class Reading(NamedTuple):
    metric: Metric
    amount: float
    labels: Mapping[str, str]


_COUNTER, _GAUGE, _HISTOGRAM = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM

REQUESTS = Metric("requests", _COUNTER, "{request}", "Requests to brokers, by outcome.", ("api", "error"))
REQUEST_TIME = Metric("request.duration", _HISTOGRAM, "s", "Time from request to response.", ("api",))
FETCHED = Metric("fetched.records", _COUNTER, "{record}", "Records fetched.")
FETCHED_BYTES = Metric("fetched.bytes", _COUNTER, "By", "Bytes of record batches fetched.")
ACQUIRED = Metric(
    "acquired.records",
    _COUNTER,
    "{record}",
    "Records acquired, by whether they were redelivered.",
    ("topic", "redelivered"),
)
REFUSED = Metric(
    "refused", _COUNTER, "{partition}", "Partitions that a broker refused.", ("api", "topic", "error")
)
ACKNOWLEDGED = Metric(
    "acknowledged.records",
    _COUNTER,
    "{record}",
    "Records whose acknowledgement was confirmed.",
    ("topic", "ack_type"),
)
UNACKNOWLEDGED = Metric(
    "unacknowledged.records",
    _COUNTER,
    "{record}",
    "Records whose acknowledgement was refused, or has an open outcome.",
    ("topic", "error"),
)
PROCESSING_TIME = Metric(
    "processing.duration",
    _HISTOGRAM,
    "s",
    "Time from handing records to the user to the confirmation of their acknowledgement.",
    ("topic",),
)
SKIPPED = Metric("skipped.records", _COUNTER, "{record}", "Duplicates that weren't handed out.", ("topic",))
DAMAGED = Metric(
    "damaged.records",
    _COUNTER,
    "{record}",
    "Offsets released because their response couldn't be verified.",
    ("topic",),
)
GIVEN_BACK = Metric(
    "unseen.records",
    _COUNTER,
    "{record}",
    "Records given back without having been handed out, by how many deliveries are left to them.",
    ("topic", "left"),
)
RENEWED = Metric("renewed.records", _COUNTER, "{record}", "Records whose lease was renewed.", ("topic",))
LOST_RECORDS = Metric(
    "lost.records", _COUNTER, "{record}", "Records whose lease was lost.", ("topic", "reason")
)
SESSIONS = Metric("sessions.ended", _COUNTER, "{session}", "Share sessions that ended, and why.", ("reason",))
REBALANCES = Metric("rebalances", _COUNTER, "{assignment}", "Changes of the assignment.")
PARTITIONS = Metric("assigned.partitions", _GAUGE, "{partition}", "Partitions currently assigned.")
POISON = Metric(
    "poison.records", _COUNTER, "{record}", "Records whose deserializer raised an error.", ("topic", "part")
)

METRICS = (
    REQUESTS,
    REQUEST_TIME,
    FETCHED,
    FETCHED_BYTES,
    ACQUIRED,
    REFUSED,
    ACKNOWLEDGED,
    UNACKNOWLEDGED,
    PROCESSING_TIME,
    SKIPPED,
    DAMAGED,
    GIVEN_BACK,
    RENEWED,
    LOST_RECORDS,
    SESSIONS,
    REBALANCES,
    PARTITIONS,
    POISON,
)


def readings(event: Event) -> Iterator[Reading]:
    """Yields the changes of metrics that an event causes."""
    match event:
        case Responded(api, _, seconds, error):
            yield Reading(REQUESTS, 1, {"api": api, "error": error or ""})
            yield Reading(REQUEST_TIME, seconds, {"api": api})
        case Fetched(_, records, size):
            yield Reading(FETCHED, records, {})
            yield Reading(FETCHED_BYTES, size, {})
        case Acquired(topic, _, records, count):
            yield Reading(ACQUIRED, records, {"topic": topic, "redelivered": "yes" if count > 1 else "no"})
        case Refused(api, topic, _, error):
            yield Reading(REFUSED, 1, {"api": api, "topic": topic, "error": error or ""})
        case Acknowledged():
            yield from _outcome(event)
        case Finished(topic, _, _, seconds):
            yield Reading(PROCESSING_TIME, seconds, {"topic": topic})
        case Skipped(topic, _, records):
            yield Reading(SKIPPED, records, {"topic": topic})
        case Damaged(topic, _, records, _):
            yield Reading(DAMAGED, records, {"topic": topic})
        case GivenBack(topic, _, records, left):
            yield Reading(GIVEN_BACK, records, {"topic": topic, "left": str(left) if left < 2 else "more"})
        case LeaseRenewed(topic, _, records):
            yield Reading(RENEWED, records, {"topic": topic})
        case LeaseLost(topic, _, records, reason):
            yield Reading(LOST_RECORDS, records, {"topic": topic, "reason": reason})
        case SessionEnded(_, reason):
            yield Reading(SESSIONS, 1, {"reason": reason})
        case Assigned(_, gained, lost):
            yield Reading(REBALANCES, 1, {})
            yield Reading(PARTITIONS, gained - lost, {})
        case Poisoned(topic, _, _, part):
            yield Reading(POISON, 1, {"topic": topic, "part": part})


def _outcome(event: Acknowledged) -> Iterator[Reading]:
    counts = event.counts()
    if event.error is None:
        for ack_type, records in counts.items():
            yield Reading(ACKNOWLEDGED, records, {"topic": event.topic, "ack_type": ack_type})
    else:
        error = "open" if event.is_open else getattr(event.error, "name", type(event.error).__name__)
        yield Reading(UNACKNOWLEDGED, sum(counts.values()), {"topic": event.topic, "error": error})
