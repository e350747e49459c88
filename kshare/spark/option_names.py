"""Translates errors about the consumer's options into the names that users of Spark write.

The consumer behind a query has options of its own, such as `request_timeout` for Kafka's `request.timeout.ms`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from kshare.client.kafka_names import KAFKA_NAMES, NOT_OURS
from kshare.errors import ConfigError

KAFKA = "kafka."

_NAMES = {
    "bootstrap_servers": "kafka.bootstrap.servers",
    "client_id": "kafka.client.id",
    "request_timeout": "kafka.request.timeout.ms",
    "max_bytes": "kafka.fetch.max.bytes",
    "max_records": "maxRecordsPerTrigger",
    "sasl_mechanism": "kafka.sasl.mechanism",
    "username is given": "kafka.sasl.jaas.config is given",
    "topics": "subscribe",
    "compression": "kafka.compression.type",
    "delivery_timeout": "kafka.delivery.timeout.ms",
    "transaction_timeout": "kafka.transaction.timeout.ms",
}
_OF_CONSUMERS = ("acknowledgement", "deserializer=", "max_records")
"""What a hint mentions that isn't for queries."""


def check_kafka_names(names: Iterable[str]) -> None:
    """Raise ConfigError for options that Kafka doesn't have, or queries don't use. Names are without `kafka.`."""
    for name in names:
        hint = NOT_OURS.get(name, "")
        if any(word in hint for word in _OF_CONSUMERS):
            raise ConfigError(f"{KAFKA}{name}: leave it out: a query doesn't use this setting")
        if name not in KAFKA_NAMES and name not in NOT_OURS:
            near = get_close_matches(name, KAFKA_NAMES, 1)
            raise ConfigError(
                f"there is no option {KAFKA}{name}" + (f": did you mean {KAFKA}{near[0]}?" if near else "")
            )


def in_spark_names(message: str) -> str:
    """The message of an error, with the names that users of Spark write."""
    for ours, sparks in _NAMES.items():
        message = re.sub(rf'(?<![\w.]){ours}="(\w+)"', rf'option("{sparks}", "\1")', message)
        message = re.sub(rf"(?<![\w.]){ours}(?![\w.=])", sparks, message)
    return message
