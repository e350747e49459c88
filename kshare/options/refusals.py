"""Options of other clients that have no meaning here: why, and what to write instead. Pure.

There is one table for whoever takes options, because users paste the same ones everywhere. None is silently ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Taker = Literal["consumer", "producer", "handler", "query", "source", "sink"]
"""Who takes the option: a query takes Kafka's own, which begin with `kafka.`; source and sink are Spark's."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an option is refused, by who takes it. Empty: it isn't refused there."""

    consumer: str = ""
    """Also for producers, handlers and queries, unless they have a reason of their own."""
    producer: str = ""
    handler: str = ""
    query: str = ""
    source: str = ""
    sink: str = ""

    def reason(self, taker: Taker) -> str:
        own: str = getattr(self, taker)
        return own if own or taker in ("source", "sink") else self.consumer


def why_refused(name: str, taker: Taker) -> str:
    """The message of an error, which begins with the name as Kafka's users write it. Empty if it isn't refused.

    Upper case, underscores and a missing unit don't matter.
    """
    plain = name.replace("_", ".").lower()
    row = _BY_PLAIN_NAME.get(plain) or _BY_PLAIN_NAME.get(f"{plain}.ms")
    reason = row[1].reason(taker) if row else ""
    if not row or not reason:
        return ""
    # Spark passes lower-case names.
    return f"{row[0] if taker == 'source' else name}: {reason}"


def refused_names(taker: Taker) -> Iterator[str]:
    """Kafka's names, or Spark's."""
    return (name for name, row in REFUSED_OPTIONS.items() if row.reason(taker))


def _of_the_group(setting: str) -> Refusal:
    return Refusal(
        f"belongs to the share group; set {setting} with `kshare groups config set` or AdminClient.alter_group_config"
    )


def _of_files(option: str) -> Refusal:
    return Refusal(f"certificates within the configuration aren't read: write {option}=<a PEM file>")


_UNUSED = "leave it out: a query doesn't use this setting"
_NO_OFFSETS = Refusal(
    'share groups have no offsets to commit: choose acknowledgement="implicit" or "explicit"',
    handler="share groups have no offsets to commit: each record is acknowledged separately",
    query=_UNUSED,
)
_NO_STATIC_MEMBERS = Refusal(
    "share groups have no static members, because any member can continue where another stopped: leave it out"
)
_ADAPTS = Refusal(
    "leave it out: fetches adapt to how fast your code is, within max_records and max_bytes", query=_UNUSED
)
_NOT_NEEDED = "leave it out: kshare doesn't need this setting"
_TOKEN = Refusal("leave it out and write token=<a function that returns a fresh token>")
_OBSERVED = Refusal("leave it out: write observer=<a function>, see kshare.metrics")
_RETRIED = Refusal(producer="records are retried, in order, until delivery_timeout: leave it out")

_BEGINS = Refusal(
    source="starting offsets belong to the share group, not to the query. Before its first start: `kshare groups "
    "config set GROUP share.auto.offset.reset=earliest`. Later, with the query stopped: `kshare groups reset-offsets`"
)
_ENDS = Refusal(
    source="the view ends where the topic ends when it is planned: filter by offset or timestamp instead"
)
_ONE_WAY = Refusal(
    source='members of a share group share whole topics: write option("subscribe", "orders,refunds")'
)
_WAIT = Refusal(source="leave it out and write maxWaitMs: how long to wait for more records")
_READING = Refusal(sink="this is an option for reading: leave it out")

REFUSED_OPTIONS: dict[str, Refusal] = {
    "auto.offset.reset": _of_the_group("share.auto.offset.reset"),
    "isolation.level": _of_the_group("share.isolation.level"),
    "session.timeout.ms": _of_the_group("share.session.timeout.ms"),
    "heartbeat.interval.ms": _of_the_group("share.heartbeat.interval.ms"),
    "enable.auto.commit": _NO_OFFSETS,
    "auto.commit": _NO_OFFSETS,
    "auto.commit.interval.ms": _NO_OFFSETS,
    "enable.auto.offset.store": _NO_OFFSETS,
    "commit.offsets": _NO_OFFSETS,
    "manual.offset.management": _NO_OFFSETS,
    "seek": Refusal(
        "a share group has no position: change its start offsets with `kshare groups reset-offsets`"
    ),
    "max.poll.interval.ms": Refusal(
        "leave it out: records are kept by renewing their locks, see max_lease_seconds",
        handler="share groups have no such limit: use time_limit for the handler",
    ),
    "partition.assignment.strategy": Refusal(
        "leave it out: brokers assign the partitions of share groups, whose members share them"
    ),
    "on.rebalance": Refusal(
        "share groups don't rebalance: several members may read a partition, and none loses records"
    ),
    "group.protocol": Refusal("leave it out: a share group has one protocol"),
    "group.instance.id": _NO_STATIC_MEMBERS,
    "static.membership": _NO_STATIC_MEMBERS,
    "fetch.min.bytes": _ADAPTS,
    "fetch.max.wait.ms": _ADAPTS,
    "fetch.wait.max.ms": _ADAPTS,
    "max.partition.fetch.bytes": _ADAPTS,
    "key.deserializer": Refusal(
        "a class name can't be loaded: write key_deserializer=<a function of bytes>",
        handler="take a Delivery, which has the key as bytes",
        query=_UNUSED,
    ),
    "value.deserializer": Refusal(
        "a class name can't be loaded: write value_deserializer=<a function of bytes>",
        handler="annotate the handler's parameter with the type that it wants",
        query=_UNUSED,
    ),
    "key.serializer": Refusal(producer="keys are bytes: encode them"),
    "value.serializer": Refusal(producer="values are bytes: encode them"),
    "partitioner.class": Refusal(producer="leave it out, and write send(partition=...)"),
    "retries": _RETRIED,
    "max.in.flight.requests.per.connection": _RETRIED,
    "max.block.ms": Refusal(producer="waiting for the buffer is limited by delivery_timeout: leave it out"),
    "ssl.truststore.password": Refusal(
        "PEM files need none: convert the trust store and write ca_file=<that file>"
    ),
    "ssl.keystore.password": Refusal("write key_password=<the key's password>, and cert_file=<a PEM file>"),
    "ssl.truststore.certificates": _of_files("ca_file"),
    "ssl.keystore.certificate.chain": _of_files("cert_file"),
    "ssl.keystore.key": _of_files("key_file"),
    "ssl.ca.pem": _of_files("ca_file"),
    "ssl.certificate.pem": _of_files("cert_file"),
    "ssl.key.pem": _of_files("key_file"),
    "consumer.timeout.ms": Refusal(
        "leave it out and put `with anyio.move_on_after(seconds):` around the loop; with kshare.sync, call "
        "next_batch(timeout=seconds), which then returns None"
    ),
    "default.api.timeout.ms": Refusal("write request_timeout=<seconds>"),
    "statistics.interval.ms": _OBSERVED,
    "metric.reporters": _OBSERVED,
    "interceptor.classes": Refusal("leave it out: write observer=<a function>"),
    "debug": Refusal('leave it out: set the level of the loggers "kshare.client" and "kshare.net"'),
    "allow.auto.create.topics": Refusal("consumers never create topics: leave it out"),
    "metadata.max.age.ms": Refusal(_NOT_NEEDED),
    "retry.backoff.ms": Refusal(_NOT_NEEDED),
    "retry.backoff.max.ms": Refusal(_NOT_NEEDED),
    "connections.max.idle.ms": Refusal(_NOT_NEEDED),
    "client.dns.lookup": Refusal(_NOT_NEEDED),
    "check.crcs": Refusal("checksums are always checked: leave it out"),
    "api.version": Refusal(_NOT_NEEDED),
    "api.version.request": Refusal(_NOT_NEEDED),
    "sasl.login.callback.handler.class": _TOKEN,
    "sasl.oauthbearer.token.endpoint.url": _TOKEN,
    "sasl.oauthbearer.config": _TOKEN,
    "sasl.oauthbearer.method": _TOKEN,
    "sasl.oauth.token.provider": _TOKEN,
    # Spark's
    "assign": _ONE_WAY,
    "subscribePattern": _ONE_WAY,
    "startingOffsets": _BEGINS,
    "startingTimestamp": _BEGINS,
    "startingOffsetsByTimestamp": _BEGINS,
    "startingOffsetsByTimestampStrategy": _BEGINS,
    "endingOffsets": _ENDS,
    "endingTimestamp": _ENDS,
    "endingOffsetsByTimestamp": _ENDS,
    "groupIdPrefix": Refusal(source='leave it out and name the group: write option("group", "orders")'),
    "minOffsetsPerTrigger": _WAIT,
    "maxTriggerDelay": _WAIT,
    "maxRecordsPerPartition": Refusal(
        source="leave it out and write minPartitions: the least number of tasks"
    ),
    "kafkaConsumer.pollTimeoutMs": Refusal(source=_NOT_NEEDED),
    "fetchOffset.numRetries": Refusal(source=_NOT_NEEDED),
    "fetchOffset.retryIntervalMs": Refusal(source=_NOT_NEEDED),
    "path": Refusal(
        source='leave the argument of load() out, and write option("subscribe", "orders")',
        sink='leave the argument of save() or start() out, and write option("topic", "orders")',
    ),
    "topic": Refusal(source='write option("subscribe", "orders"): topic is an option for writing'),
    "topics": Refusal(source='write option("subscribe", "orders,refunds")'),
    "includeHeaders": Refusal(sink="leave it out: headers are written if there is a column headers"),
    "group": _READING,
    "subscribe": _READING,
    "settle": _READING,
    "settleRows": _READING,
    "failOnDataLoss": _READING,
    "deliveryCount": _READING,
    "minPartitions": _READING,
}
_BY_PLAIN_NAME = {name.lower(): (name, row) for name, row in REFUSED_OPTIONS.items()}
