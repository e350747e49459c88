"""The broker's metrics: those of KIP-932 that apply to one process, and some for tests and development.

Decides names and labels. Everything is read from the broker's state at the moment it is asked for; only what grows is
kept, in `counters`. `exposition` is the text that Prometheus reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kshare.broker.broker import Broker
from kshare.broker.counters import Durations
from kshare.broker.shares.delivery import State


@dataclass(slots=True, frozen=True)
class Metric:
    """A name without its prefix, what it says, and whether it only grows."""

    name: str
    about: str
    is_counter: bool = False


@dataclass(slots=True, frozen=True)
class Reading:
    metric: Metric
    value: float
    labels: dict[str, str] = field(default_factory=dict)


class TimedMetric:
    """Three metrics of something that takes time. An average is what was spent, divided by how often."""

    def __init__(self, name: str, what: str) -> None:
        self.count = Metric(f"{name}s_total", f"How many {what} there were.", True)
        self.total = Metric(f"{name}_seconds_total", f"What {what} took together.", True)
        self.longest = Metric(f"{name}_seconds_max", f"What the slowest of all {what} took.")

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return self.count, self.total, self.longest

    def readings(self, taken: Durations) -> Iterator[Reading]:
        yield Reading(self.count, taken.count)
        yield Reading(self.total, taken.total)
        yield Reading(self.longest, taken.longest)


REQUESTS = Metric("requests_total", "Requests taken, by API and node.", True)
REFUSALS = Metric(
    "request_errors_total", "Requests answered with an error as a whole, by API and node.", True
)
GROUPS = Metric("share_groups", "Share groups, by state.")
REBALANCES = Metric("share_group_rebalances_total", "How often a share group's assignment has changed.", True)
MEMBERS = Metric("share_group_members", "Members of a share group.")
PARTITIONS = Metric("share_partitions", "Share-partitions that are loaded at their leaders.")
SESSIONS = Metric("share_sessions", "Share sessions, by node.")
IN_FLIGHT = Metric("share_in_flight_records", "Records acquired and not settled, by share-partition.")
BATCHES = Metric("share_in_flight_batches", "Entries in the state of a share-partition.")
START = Metric("share_start_offset", "The first offset of a share-partition that isn't settled.")
LAG = Metric("share_lag_records", "Records of a share-partition that aren't settled yet.")
ACQUIRED = Metric("share_acquired_records_total", "Records handed out, repetitions included.", True)
ACKNOWLEDGED = Metric("share_acknowledged_records_total", "Records acknowledged, by type.", True)
TIMEOUTS = Metric("share_lock_timeouts_total", "Records whose acquisition lock ran out.", True)
GIVEN_BACK = Metric("share_session_end_releases_total", "Records given back as their session ended.", True)
BURIED = Metric("share_dead_letters_total", "Records archived without being accepted.", True)
EVICTIONS = Metric("share_session_evictions_total", "Share sessions ended with their connection.", True)
EXPIRED = Metric("share_fetches_expired_total", "Fetches that waited until their time was up.", True)
SHARDS = Metric("share_state_partitions", "Partitions of the state topic that the coordinator has loaded.")
WRITES = TimedMetric("share_state_write", "writes of a share-partition's state")
STATE_LOADS = TimedMetric("share_state_load", "loads of a partition of the state topic")
LOADS = TimedMetric("share_partition_load", "loads of a share-partition at its leader")
END = Metric("log_end_offset", "The offset that the next record of a partition gets.")
SIZE = Metric("log_size_bytes", "Bytes in a partition's log.")

METRICS = (
    REQUESTS,
    REFUSALS,
    GROUPS,
    REBALANCES,
    MEMBERS,
    PARTITIONS,
    SESSIONS,
    IN_FLIGHT,
    BATCHES,
    START,
    LAG,
    ACQUIRED,
    ACKNOWLEDGED,
    TIMEOUTS,
    GIVEN_BACK,
    BURIED,
    EVICTIONS,
    EXPIRED,
    SHARDS,
    *WRITES.metrics,
    *STATE_LOADS.metrics,
    *LOADS.metrics,
    END,
    SIZE,
)


def readings(broker: Broker) -> Iterator[Reading]:
    """Everything at this moment."""
    yield from _groups(broker)
    yield from _shares(broker)
    yield from _counted(broker)
    for partition in broker.cluster.partitions():
        if not partition.topic.is_internal:
            where = {"topic": partition.topic.name, "partition": str(partition.index)}
            yield Reading(END, partition.log.end_offset, where)
            yield Reading(SIZE, partition.log.size, where)


def _groups(broker: Broker) -> Iterator[Reading]:
    groups = list(broker.share_groups.all())
    states = Counter(group.state for group in groups)
    for state in ("Empty", "Stable"):
        yield Reading(GROUPS, states[state], {"state": state})
    for group in groups:
        yield Reading(MEMBERS, len(group.members), {"group": group.id})
        yield Reading(REBALANCES, group.epoch - 1, {"group": group.id})


def _shares(broker: Broker) -> Iterator[Reading]:
    loaded = list(broker.shares.loaded())
    yield Reading(PARTITIONS, len(loaded))
    for node in broker.cluster.nodes.values():
        yield Reading(SESSIONS, len(broker.shares.sessions(node)), {"node": str(node.id)})
    for led in loaded:
        window = led.shared.window
        where = {
            "group": led.group,
            "topic": led.partition.topic.name,
            "partition": str(led.partition.index),
        }
        held = sum(
            last - first + 1 for first, last, delivery in window.runs() if delivery.state is State.ACQUIRED
        )
        yield Reading(IN_FLIGHT, held, where)
        yield Reading(BATCHES, len(window.batches), where)
        yield Reading(START, window.start, where)
        lag = led.partition.log.end_offset - window.start - window.settled_count()
        yield Reading(LAG, max(lag, 0), where)


def _counted(broker: Broker) -> Iterator[Reading]:
    counters = broker.counters
    for (api, node), count in counters.requests.items():
        yield Reading(REQUESTS, count, {"api": api, "node": str(node)})
    for (api, node), count in counters.refusals.items():
        yield Reading(REFUSALS, count, {"api": api, "node": str(node)})
    for node, count in counters.evictions.items():
        yield Reading(EVICTIONS, count, {"node": str(node)})
    yield Reading(SHARDS, broker.share_states.loaded)
    yield from WRITES.readings(counters.state_writes)
    yield from STATE_LOADS.readings(counters.state_loads)
    yield from LOADS.readings(counters.partition_loads)
    for (group, kind), count in counters.acknowledged.items():
        yield Reading(ACKNOWLEDGED, count, {"group": group, "type": kind})
    for metric, counter in (
        (ACQUIRED, counters.acquired),
        (TIMEOUTS, counters.lock_timeouts),
        (GIVEN_BACK, counters.sessions_ended),
        (BURIED, counters.dead_letters),
        (EXPIRED, counters.fetches_expired),
    ):
        for group, count in counter.items():
            yield Reading(metric, count, {"group": group})


def exposition(broker: Broker) -> str:
    """All readings in Prometheus's text format."""
    by_metric: dict[Metric, list[Reading]] = {}
    for reading in readings(broker):
        by_metric.setdefault(reading.metric, []).append(reading)
    lines: list[str] = []
    for metric, found in by_metric.items():
        name = f"kshare_broker_{metric.name}"
        lines += [
            f"# HELP {name} {metric.about}",
            f"# TYPE {name} {'counter' if metric.is_counter else 'gauge'}",
        ]
        lines += [f"{name}{_labels(reading.labels)} {reading.value:g}" for reading in found]
    return "\n".join(lines) + "\n"


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
