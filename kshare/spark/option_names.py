"""Translates errors about the consumer's options into the names that users of Spark write.

The consumer behind a query has options of its own, such as `request_timeout` for Kafka's `request.timeout.ms`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from kshare.client.kafka_names import KAFKA_NAMES
from kshare.errors import ConfigError
from kshare.options.mistakes import Mistakes
from kshare.options.refusals import why_refused
from kshare.options.unknown import no_option

KAFKA = "kafka."

_NAMES = {
    'bootstrap_servers is missing: write "localhost:9092"': (
        'kafka.bootstrap.servers is missing: write option("kafka.bootstrap.servers", "localhost:9092")'
    ),
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


def check_kafka_names(names: Iterable[str]) -> None:
    """Raise ConfigError for options that Kafka doesn't have, or queries don't use. Names are without `kafka.`."""
    mistakes = Mistakes()
    for name in names:
        if refused := why_refused(name, "query"):
            mistakes.add(f"{KAFKA}{in_spark_names(refused)}")
        elif name not in KAFKA_NAMES:
            mistakes.add(no_option(name, KAFKA_NAMES, prefix=KAFKA))
    mistakes.raise_all()


def spark_error(error: ConfigError, kafkas: Collection[str]) -> ConfigError:
    """An error about the options of a consumer or a producer, as users of Spark know them."""
    return ConfigError(*(_explained(mistake, kafkas) for mistake in error.mistakes))


def _explained(message: str, kafkas: Collection[str]) -> str:
    prefix = KAFKA if message.split(":")[0] in kafkas else ""
    return prefix + in_spark_names(message)


def in_spark_names(message: str) -> str:
    """The message of an error, with the names that users of Spark write."""
    for ours, sparks in _NAMES.items():
        message = re.sub(rf'(?<![\w.]){ours}="(\w+)"', rf'option("{sparks}", "\1")', message)
        message = re.sub(rf"(?<![\w.]){ours}(?![\w.=])", sparks, message)
    return message
