"""Batch markers: which rows a task of a stream has written for a micro-batch, and what that means for a repetition.

A marker is a record in a topic of its own, written in the transaction of the rows. Its key is the query and the task,
so that a compacted topic keeps the newest. Pure.

    newest marker of the query      | marker of this task          | the task
    --------------------------------+------------------------------+-----------------------------------------
    of a later micro-batch          |                              | fails: an old checkpoint, or a late task
    of this micro-batch, or earlier | of this batch, the same rows | skips its rows
                                    | of this batch, other rows    | fails: the batch is split differently
                                    | of an earlier batch, or none | writes its rows
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from zlib import crc32

from kshare.errors import KshareError
from kshare.producer.records import Headers
from kshare.spark.ranges import NEW_CHECKPOINT
from kshare.spark.sink.row_columns import Row

_FORMAT = 1
_MASK = 2**64 - 1


class MarkerKey(NamedTuple):
    """A task of a query."""

    query_id: str
    task: int

    def to_bytes(self) -> bytes:
        return f"{self.query_id}/{self.task}".encode()

    @classmethod
    def from_bytes(cls, key: bytes | None) -> MarkerKey | None:
        """None for anything else."""
        query_id, slash, task = (key or b"").decode(errors="replace").rpartition("/")
        return cls(query_id, int(task)) if slash and task.isdecimal() and len(task) < 10 else None


class RowSum(NamedTuple):
    """The number of rows, and a checksum that doesn't depend on their order."""

    total: int = 0
    checksum: int = 0

    def plus(self, rows: Iterable[Row]) -> RowSum:
        total, checksum = self
        for row in rows:
            total += 1
            checksum += _checksum(*row)
        return RowSum(total, checksum & _MASK)


def _checksum(
    topic: str | None,
    partition: int | None,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    timestamp: int | None,
) -> int:
    """Differs if any of the columns does, as far as 64 bits can tell. A null isn't an empty string."""
    contents = crc32(value or b"", 0 if value is None else 1)
    rest = crc32(key or b"", contents ^ (2 if key is None else 3))
    if headers or topic or partition is not None or timestamp is not None:
        rest = crc32(repr((topic, partition, headers, timestamp)).encode(), rest)
    return contents << 32 | rest


class BatchMarker(NamedTuple):
    """What a task has written."""

    batch_id: int
    rows: RowSum

    def to_bytes(self) -> bytes:
        said = {
            "format": _FORMAT,
            "batch": self.batch_id,
            "rows": self.rows.total,
            "checksum": f"{self.rows.checksum:016x}",
        }
        return json.dumps(said).encode()

    @classmethod
    def from_bytes(cls, value: bytes) -> BatchMarker:
        """Raises KshareError for anything else."""
        try:
            said: Any = json.loads(value)
            if said["format"] != _FORMAT:
                raise KshareError(
                    f"format {said['format']} isn't known: use the version of kshare that wrote it"
                )
            return cls(int(said["batch"]), RowSum(int(said["rows"]), int(said["checksum"], 16)))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise KshareError(f"{value[:80]!r} isn't a batch marker") from None


def marker_to_match(
    markers: Mapping[MarkerKey, BatchMarker], key: MarkerKey, batch_id: int, topic: str
) -> BatchMarker | None:
    """The marker that this task left when it wrote this micro-batch before. Raises KshareError for an old batch."""
    newest = max(
        (marker.batch_id for place, marker in markers.items() if place.query_id == key.query_id), default=-1
    )
    if newest > batch_id:
        raise KshareError(
            f"micro-batch {batch_id} of query {key.query_id} isn't written, because micro-batch {newest} was written "
            f"before, according to topic {topic}. If the checkpoint was restored from an older copy, start the query "
            "with another exactlyOnceTopic (rows since then are written twice), or with "
            f"{NEW_CHECKPOINT}"
        )
    found = markers.get(key)
    return found if found is not None and found.batch_id == batch_id else None


def highest_task(markers: Mapping[MarkerKey, BatchMarker], query_id: str, batch_id: int) -> int:
    """The highest number of a task that has written rows of this micro-batch; -1 if none has."""
    tasks = (
        key.task
        for key, marker in markers.items()
        if key.query_id == query_id and marker.batch_id == batch_id
    )
    return max(tasks, default=-1)


def check_same_rows(marker: BatchMarker, rows: RowSum, key: MarkerKey) -> None:
    """Raise KshareError if the rows differ from those that were written before."""
    if marker.rows != rows:
        raise KshareError(
            f"task {key.task} of micro-batch {marker.batch_id} of query {key.query_id} has {rows.total} rows, and has "
            f"already written {marker.rows.total}"
            f"{', which were others' if rows.total == marker.rows.total else ''}. The micro-batch is repeated with "
            "other tasks or other rows than before, so kshare can't tell which of them are written. Nothing is lost: "
            "restart the query with as many cores and partitions as before; or, once, without exactlyOnceTopic (the "
            "rows of this micro-batch may then be written twice)"
        )
