"""The options of the Spark sink, typed and validated; named like those of Spark's Kafka sink.

Decides which are allowed. Errors say what to write instead and never contain secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kshare.errors import ConfigError
from kshare.net.settings import NetSettings
from kshare.options.mistakes import Mistakes
from kshare.options.refusals import why_refused
from kshare.options.unknown import no_option
from kshare.producer.config import producer_settings
from kshare.producer.settings import WriterSettings
from kshare.spark.option_names import KAFKA, spark_error

_SERVERS = "kafka.bootstrap.servers"
_TRANSACTION_S = 300.0
"""A task may take long, because Spark computes the rows while they are written. Brokers allow 15 minutes by default."""

_NAMES = {"topic": "topic", "exactlyoncetopic": "exactlyOnceTopic"}
_OF_SPARK = ("checkpointlocation", "querynameforlogging")
"""Spark's own, which it passes to sinks too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of a sink. Can be pickled."""

    net: NetSettings
    writing: WriterSettings
    topic: str | None = None
    """Where all rows go, instead of the column `topic`."""
    exactly_once_topic: str | None = None
    """The topic for batch markers. With it, streams write in transactions and skip what was written."""

    @classmethod
    def parse(cls, given: Mapping[str, str], *, is_streaming: bool) -> WriteOptions:
        """Parse the options that Spark passes. Their names are case-insensitive.

        Raises ConfigError with all mistakes.
        """
        mistakes = Mistakes()
        kafkas: dict[str, Any] = {}
        values: dict[str, str] = {}
        for original, value in given.items():
            name = original.lower()
            if name.startswith(KAFKA):
                kafkas[name.removeprefix(KAFKA)] = value
            elif name in _NAMES and not value.strip():
                mistakes.add(f"{_NAMES[name]} is empty: write the name of a topic")
            elif name in _NAMES:
                values[name] = value.strip()
            elif name not in _OF_SPARK:
                mistakes.add(why_refused(original, "sink") or _no_option(original))
        marker_topic = values.get("exactlyoncetopic")
        if marker_topic is not None and not is_streaming:
            mistakes.add(
                "exactlyOnceTopic is for streams: leave it out. Batches have no ids by which repetitions are recognized"
            )
        if marker_topic is not None and marker_topic == values.get("topic"):
            mistakes.add(
                f"topic and exactlyOnceTopic are both {marker_topic}: batch markers need a topic of their own"
            )
        with mistakes:
            net, writing = _producer(kafkas, is_exactly_once=marker_topic is not None)
        mistakes.raise_all()
        return cls(net=net, writing=writing, topic=values.get("topic"), exactly_once_topic=marker_topic)


def _producer(kafkas: dict[str, Any], *, is_exactly_once: bool) -> tuple[NetSettings, WriterSettings]:
    """Raises ConfigError with all mistakes."""
    mistakes = Mistakes()
    if kafkas.pop("transactional.id", None) is not None:
        mistakes.add(
            "kafka.transactional.id: leave it out. To write a stream in transactions, write "
            'option("exactlyOnceTopic", ...): each task then has an id of its own'
        )
    if is_exactly_once:
        kafkas.setdefault("transaction.timeout.ms", _TRANSACTION_S * 1000)
    try:
        settings = producer_settings(None, kafkas)
    except ConfigError as error:
        for mistake in spark_error(error, kafkas).mistakes:
            mistakes.add(mistake.replace("or None, not", "or none, not"))
    mistakes.raise_all()
    return settings


def _no_option(original: str) -> str:
    names = [*_NAMES.values(), _SERVERS]
    return no_option(original, names, [*names, "other kafka.*"])
