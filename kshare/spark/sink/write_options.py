"""The options of the Spark sink, typed and validated; named like those of Spark's Kafka sink.

Decides which are allowed. Errors say what to write instead and never contain secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from kshare.errors import ConfigError
from kshare.net.settings import NetSettings
from kshare.producer.config import producer_settings
from kshare.producer.settings import WriterSettings
from kshare.spark.option_names import KAFKA, in_spark_names

_SERVERS = "kafka.bootstrap.servers"
_TRANSACTION_S = 300.0
"""A task may take long, because Spark computes the rows while they are written. Brokers allow 15 minutes by default."""

_NAMES = {"topic": "topic", "exactlyoncetopic": "exactlyOnceTopic"}
_READING = "is an option for reading: leave it out"
_OTHERS = {
    "includeheaders": "leave it out: headers are written if there is a column headers",
    "checkpointlocation": "",  # Spark's own, which it passes to sinks too
    "querynameforlogging": "",
    "path": 'leave the argument of save() or start() out, and write option("topic", "orders")',
    "group": _READING,
    "subscribe": _READING,
    "settle": _READING,
    "settlerows": _READING,
    "failondataloss": _READING,
    "deliverycount": _READING,
    "minpartitions": _READING,
}


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
        """Parse the options that Spark passes. Their names are case-insensitive."""
        kafkas: dict[str, Any] = {}
        values: dict[str, str] = {}
        for original, value in given.items():
            name = original.lower()
            if name.startswith(KAFKA):
                kafkas[name.removeprefix(KAFKA)] = value
            elif name in _NAMES:
                if not value.strip():
                    raise ConfigError(f"{_NAMES[name]} is empty: write the name of a topic")
                values[name] = value.strip()
            elif _OTHERS.get(name, "unknown"):
                raise ConfigError(_complaint(original))
        marker_topic = values.get("exactlyoncetopic")
        if marker_topic is not None and not is_streaming:
            raise ConfigError(
                "exactlyOnceTopic is for streams: leave it out. Batches have no ids by which repetitions are recognized"
            )
        if marker_topic is not None and marker_topic == values.get("topic"):
            raise ConfigError(
                f"topic and exactlyOnceTopic are both {marker_topic}: batch markers need a topic of their own"
            )
        net, writing = _producer(kafkas, is_exactly_once=marker_topic is not None)
        return cls(net=net, writing=writing, topic=values.get("topic"), exactly_once_topic=marker_topic)


def _producer(kafkas: dict[str, Any], *, is_exactly_once: bool) -> tuple[NetSettings, WriterSettings]:
    if not kafkas.get("bootstrap.servers"):
        raise ConfigError(f'{_SERVERS} is missing: write option("{_SERVERS}", "localhost:9092")')
    if "transactional.id" in kafkas:
        raise ConfigError(
            "kafka.transactional.id: leave it out. To write a stream in transactions, write "
            'option("exactlyOnceTopic", ...): each task then has an id of its own'
        )
    if is_exactly_once:
        kafkas.setdefault("transaction.timeout.ms", _TRANSACTION_S * 1000)
    try:
        return producer_settings(None, kafkas)
    except ConfigError as error:
        prefix = KAFKA if str(error).split(":")[0] in kafkas else ""
        raise ConfigError(
            prefix + in_spark_names(str(error)).replace("or None, not", "or none, not")
        ) from None


def _complaint(original: str) -> str:
    name = original.lower()
    if name in _OTHERS:
        return f"{original}: {_OTHERS[name]}" if _OTHERS[name] != _READING else f"{original} {_READING}"
    names = [*_NAMES.values(), _SERVERS]
    near = get_close_matches(name, [one.lower() for one in names], 1)
    spelled = {one.lower(): one for one in names}
    hint = (
        f"did you mean {spelled[near[0]]}?"
        if near
        else f"the options are {', '.join(names)} and other kafka.*"
    )
    return f"there is no option {original!r}: {hint}"
