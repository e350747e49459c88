"""Results that handlers publish: written when the handler has returned, and before its record is accepted."""

from __future__ import annotations

from typing import NamedTuple

from kshare.errors import ConfigError, KshareError
from kshare.idempotency.calls import idempotent_call
from kshare.producer.records import Headers, NewRecord
from kshare.surroundings import wall_time


class Result(NamedTuple):
    topic: str
    record: NewRecord
    partition: int | None
    """None: the key chooses it."""


class BatchResults:
    """What a batch handler publishes for its whole batch. All of it is confirmed before any record is accepted."""

    __slots__ = ("_problem", "_results")

    def __init__(self) -> None:
        self._results: list[Result] = []
        self._problem: KshareError | None = None

    @property
    def are_unwritten(self) -> bool:
        return bool(self._results)

    def add(self, result: Result) -> None:
        self._results.append(result)

    def to_write(self) -> list[Result]:
        """Raises KshareError if they couldn't be written before: then no other record is accepted without them."""
        if self._problem is not None:
            raise self._problem
        return self._results

    def on_written(self) -> None:
        self._results = []

    def on_failed(self, problem: KshareError) -> None:
        self._problem = problem


def checked_result(
    topic: str, value: bytes | None, key: bytes | None, headers: Headers, partition: int | None
) -> Result:
    """Raises ConfigError if it can't be written, and KshareError if it might never be."""
    if not isinstance(topic, str) or not topic:
        raise ConfigError(f"topic must be a non-empty string, not {topic!r:.80}")
    if partition is not None and (type(partition) is not int or partition < 0):
        raise ConfigError(f"partition must be a whole number, 0 or more, or None, not {partition!r:.80}")
    record = NewRecord(value, key, headers, int(wall_time() * 1000)).checked()
    once = idempotent_call()
    if once is not None:
        raise KshareError(
            f"{once.function} is called once for each key, so what it publishes might never be written: "
            "let it return the result, and publish that in the handler which calls it"
        )
    return Result(topic, record, partition)
