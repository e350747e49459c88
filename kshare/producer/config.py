"""The options of a producer: where the cluster is, how to connect and how to write, in our names or in Kafka's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from kshare.admin.config import net_settings
from kshare.client.config import OPTIONS as CONSUMER_OPTIONS
from kshare.client.given_options import given_options
from kshare.client.kafka_names import dotted, parse_option
from kshare.errors import ConfigError
from kshare.net.settings import CLIENT_OPTIONS, NetSettings
from kshare.options.mistakes import Mistakes
from kshare.producer.settings import WriterSettings

WRITER_OPTIONS = tuple(field.name for field in fields(WriterSettings))
OPTIONS = ("bootstrap_servers", *WRITER_OPTIONS, *CLIENT_OPTIONS)


def producer_settings(
    bootstrap_servers: str | Iterable[str] | None, options: Mapping[str, Any]
) -> tuple[NetSettings, WriterSettings]:
    """Build the settings from the user's options, in our names or Kafka's. Raises ConfigError with all mistakes."""
    mistakes = Mistakes()
    values, attempted = given_options(
        "Producer",
        bootstrap_servers,
        options,
        lambda name, value: _translated(name, value, options),
        OPTIONS,
        mistakes,
    )
    own = {name: values.pop(name) for name in WRITER_OPTIONS if name in values}
    with mistakes:
        net = net_settings(values, attempted)
    with mistakes:
        writing = WriterSettings(**own)
    mistakes.raise_all()
    return net, writing


def _translated(name: str, value: Any, options: Mapping[str, Any]) -> Mapping[str, Any]:
    translate = None if name in OPTIONS else _KAFKA_NAMES.get(dotted(name))
    if translate is None:
        return parse_option(name, value, options, OPTIONS, CONSUMER_OPTIONS, "producer")
    try:
        return translate(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{name}: {error}") from None


def _seconds(option: str) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {option: float(value) / 1000}


def _number(option: str) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {option: int(value)}


def _compression(value: Any) -> dict[str, Any]:
    return {"compression": None if value in (None, "none") else value}


def _only(allowed: Iterable[str], reason: str) -> Callable[[Any], dict[str, Any]]:
    """For options that would make the producer unreliable: only the reliable values are accepted."""
    values = tuple(allowed)

    def check(value: Any) -> dict[str, Any]:
        if str(value).lower() not in values:
            raise ConfigError(f"{reason}: leave it out")
        return {}

    return check


_KAFKA_NAMES: dict[str, Callable[[Any], Mapping[str, Any]]] = {
    "transactional.id": lambda value: {"transactional_id": value},
    "transaction.timeout.ms": _seconds("transaction_timeout"),
    "compression.type": _compression,
    "compression.codec": _compression,
    "linger.ms": _seconds("linger"),
    "queue.buffering.max.ms": _seconds("linger"),
    "batch.size": _number("batch_bytes"),
    "buffer.memory": _number("buffer_bytes"),
    "delivery.timeout.ms": _seconds("delivery_timeout"),
    "message.timeout.ms": _seconds("delivery_timeout"),
    "acks": _only(("all", "-1"), "records are confirmed by all in-sync replicas"),
    "enable.idempotence": _only(("true",), "producers are always idempotent"),
}
