"""The broker's metrics: those of KIP-932 that apply to one process, and some for tests and development.

Decides names and labels. Values are computed from the broker's current state when they are requested, except those that
only increase, which are in `counters`. `exposition` returns Prometheus's text format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kshare.broker.broker import Broker
from kshare.broker.counters import Durations
from kshare.broker.shares.delivery import RecordState


@dataclass(slots=True, frozen=True)
class BrokerMetric:
    """A metric: its name without prefix, a description, and whether it only increases."""

    name: str
    about: str
    is_counter: bool = False


@dataclass(slots=True, frozen=True)
class MetricValue:
    metric: BrokerMetric
    value: float
    labels: dict[str, str] = field(default_factory=dict)


class TimedMetric:
    """Three metrics of something that takes time. The average is the total divided by the count."""

    def __init__(self, name: str, what: str) -> None:
        self.count = BrokerMetric(f"{name}s_total", f"Number of {what} so far.", True)
        self.total = BrokerMetric(f"{name}_seconds_total", f"Seconds spent on all {what} so far.", True)
        self.longest = BrokerMetric(f"{name}_seconds_max", f"Seconds of the slowest of all {what} so far.")

    def metric_values(self, durations: Durations) -> Iterator[MetricValue]:
        yield MetricValue(self.count, durations.count)
        yield MetricValue(self.total, durations.total)
        yield MetricValue(self.longest, durations.longest)


REQUESTS = BrokerMetric("requests_total", "Requests received, by API and node.", True)
REFUSALS = BrokerMetric("request_errors_total", "Requests that failed as a whole, by API and node.", True)
GROUPS = BrokerMetric("share_groups", "Share groups, by state.")
REBALANCES = BrokerMetric(
    "share_group_rebalances_total", "How often a share group's assignment has changed.", True
)
MEMBERS = BrokerMetric("share_group_members", "Members of a share group.")
PARTITIONS = BrokerMetric("share_partitions", "Share-partitions that are loaded at their leaders.")
SESSIONS = BrokerMetric("share_sessions", "Share sessions, by node.")
IN_FLIGHT = BrokerMetric("share_in_flight_records", "Records acquired and not settled, by share-partition.")
BATCHES = BrokerMetric("share_in_flight_batches", "Entries in the state of a share-partition.")
START = BrokerMetric("share_start_offset", "The first offset of a share-partition that isn't settled.")
LAG = BrokerMetric("share_lag_records", "Records of a share-partition that aren't settled yet.")
ACQUIRED = BrokerMetric("share_acquired_records_total", "Records acquired, including redeliveries.", True)
ACKNOWLEDGED = BrokerMetric("share_acknowledged_records_total", "Records acknowledged, by type.", True)
TIMEOUTS = BrokerMetric("share_lock_timeouts_total", "Records whose acquisition lock expired.", True)
RELEASED = BrokerMetric(
    "share_session_end_releases_total", "Records released because their session ended.", True
)
DEAD_LETTERS = BrokerMetric("share_dead_letters_total", "Records archived without being accepted.", True)
EVICTIONS = BrokerMetric("share_session_evictions_total", "Share sessions ended with their connection.", True)
EXPIRED = BrokerMetric("share_fetches_expired_total", "Fetches that reached their maximum wait time.", True)
SHARDS = BrokerMetric(
    "share_state_partitions", "Partitions of the state topic that the coordinator has loaded."
)
WRITES = TimedMetric("share_state_write", "writes of a share-partition's state")
STATE_LOADS = TimedMetric("share_state_load", "loads of a partition of the state topic")
LOADS = TimedMetric("share_partition_load", "loads of a share-partition at its leader")
END = BrokerMetric("log_end_offset", "The offset of the next record in a partition.")
SIZE = BrokerMetric("log_size_bytes", "Bytes in a partition's log.")


def metric_values(broker: Broker) -> Iterator[MetricValue]:
    """All current values."""
    yield from _groups(broker)
    yield from _shares(broker)
    yield from _counted(broker)
    for partition in broker.cluster.partitions():
        if not partition.topic.is_internal:
            where = {"topic": partition.topic.name, "partition": str(partition.index)}
            yield MetricValue(END, partition.log.end_offset, where)
            yield MetricValue(SIZE, partition.log.size, where)


def _groups(broker: Broker) -> Iterator[MetricValue]:
    groups = list(broker.share_groups.all())
    states = Counter(group.state for group in groups)
    for state in ("Empty", "Stable"):
        yield MetricValue(GROUPS, states[state], {"state": state})
    for group in groups:
        yield MetricValue(MEMBERS, len(group.members), {"group": group.id})
        yield MetricValue(REBALANCES, group.epoch - 1, {"group": group.id})


def _shares(broker: Broker) -> Iterator[MetricValue]:
    loaded = list(broker.shares.loaded())
    yield MetricValue(PARTITIONS, len(loaded))
    for node in broker.cluster.nodes.values():
        yield MetricValue(SESSIONS, len(broker.shares.sessions(node)), {"node": str(node.id)})
    for leader in loaded:
        window = leader.shared.window
        where = {
            "group": leader.group,
            "topic": leader.partition.topic.name,
            "partition": str(leader.partition.index),
        }
        held = sum(
            last - first + 1
            for first, last, delivery in window.runs()
            if delivery.state is RecordState.ACQUIRED
        )
        yield MetricValue(IN_FLIGHT, held, where)
        yield MetricValue(BATCHES, len(window.batches), where)
        yield MetricValue(START, window.start, where)
        lag = leader.partition.log.end_offset - window.start - window.settled_count()
        yield MetricValue(LAG, max(lag, 0), where)


def _counted(broker: Broker) -> Iterator[MetricValue]:
    counters = broker.counters
    for (api, node), count in counters.requests.items():
        yield MetricValue(REQUESTS, count, {"api": api, "node": str(node)})
    for (api, node), count in counters.refusals.items():
        yield MetricValue(REFUSALS, count, {"api": api, "node": str(node)})
    for node, count in counters.evictions.items():
        yield MetricValue(EVICTIONS, count, {"node": str(node)})
    yield MetricValue(SHARDS, broker.share_states.loaded)
    yield from WRITES.metric_values(counters.state_writes)
    yield from STATE_LOADS.metric_values(counters.state_loads)
    yield from LOADS.metric_values(counters.partition_loads)
    for (group, kind), count in counters.acknowledged.items():
        yield MetricValue(ACKNOWLEDGED, count, {"group": group, "type": kind})
    for metric, counter in (
        (ACQUIRED, counters.acquired),
        (TIMEOUTS, counters.lock_timeouts),
        (RELEASED, counters.sessions_ended),
        (DEAD_LETTERS, counters.dead_letters),
        (EXPIRED, counters.fetches_expired),
    ):
        for group, count in counter.items():
            yield MetricValue(metric, count, {"group": group})


def exposition(broker: Broker) -> str:
    """All current values in Prometheus's text format."""
    by_metric: dict[BrokerMetric, list[MetricValue]] = {}
    for reading in metric_values(broker):
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
