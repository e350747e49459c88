"""The data folder: a snapshot of the metadata, a journal of committed offsets, and one file per log.

Decides what is written when. Batches are written before the append returns, everything else before the next response is
sent: the server calls `flush`. So whatever was confirmed to a client survives a crash of the broker.
"""

from __future__ import annotations

import json
from io import BufferedWriter
from pathlib import Path
from typing import Any

from kshare.broker.broker import Broker
from kshare.broker.classic_groups.offsets import CommittedOffset, TopicPartition
from kshare.broker.cluster import Partition, Topic
from kshare.broker.storage.log_file import LogFile
from kshare.broker.storage.snapshot import UnreadableFolder, from_json, to_json

try:
    import fcntl
except ImportError:  # Windows locks open files itself
    fcntl = None  # type: ignore[assignment]

_DEAD_BYTES = 1024 * 1024
"""A log's file is rewritten when its deleted batches are this much larger than the log."""


class DataFolder:
    """The data folder. A lock ensures that only one broker uses it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UnreadableFolder("it is not a folder") from None
        self._logs = path / "logs"
        self._logs.mkdir(exist_ok=True)
        self._lock = (path / "lock").open("w")
        if fcntl is not None:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._lock.close()
                raise UnreadableFolder("another broker is using it") from None
        self._files: dict[Partition, LogFile] = {}
        self._journal: BufferedWriter | None = None
        self._is_dirty = False
        self._broker: Broker | None = None

    def attach(self, broker: Broker) -> None:
        """Restore the folder's contents into a new broker, and store all changes from now on."""
        try:
            self._restore(broker)
        except BaseException:
            self._lock.close()
            raise
        self._broker = broker
        broker.cluster.topic_deleted.append(self._delete_logs)
        offsets = broker.classic_groups.offsets
        for notifier in (
            broker.cluster.changed,
            broker.configs.changed,
            broker.authorizer.changed,
            broker.transactions.changed,
            broker.consumer_groups.changed,
            offsets.pending_changed,
        ):
            notifier.listen(self._mark)
        offsets.on_change = self._write_offset
        broker.flush = self.flush
        self._is_dirty = True
        self.flush()

    def _restore(self, broker: Broker) -> None:
        broker.cluster.log_made.append(self._open_log)
        snapshot = self._path / "metadata.json"
        if snapshot.exists():
            from_json(broker, _read_json(snapshot))
        self._restore_offsets(broker)
        broker.share_groups.restore()

    def _mark(self) -> None:
        self._is_dirty = True

    def flush(self) -> None:
        """Write all changes that aren't written yet."""
        if self._journal is not None:
            self._journal.flush()
        if self._is_dirty and self._broker is not None:
            self._is_dirty = False
            _replace(self._path / "metadata.json", json.dumps(to_json(self._broker)).encode())

    def close(self) -> None:
        self.flush()
        if self._journal is not None:
            self._journal.close()
        for file in self._files.values():
            file.close()
        self._lock.close()

    # --- logs

    def _open_log(self, partition: Partition) -> None:
        file = LogFile(self._logs / f"{partition.topic.id.hex()}-{partition.index}.log")
        self._files[partition] = file
        log = partition.log
        start = log.start_offset
        has_dead = False
        for batch in file.restore():
            if batch.last_offset < start:
                has_dead = True
            else:
                log.restore(batch)
        if has_dead:
            file.rewrite(log.batches_from(start))
        log.on_append = file.append
        log.on_replaced = lambda: file.rewrite(log.batches_from(log.start_offset))
        log.on_start_moved = lambda _: self._follow_start(partition, file)

    def _follow_start(self, partition: Partition, file: LogFile) -> None:
        self._mark()
        log = partition.log
        if file.size > 2 * log.size + _DEAD_BYTES:
            # Store the new start offset first: an empty file doesn't show where the log ends.
            self.flush()
            file.rewrite(log.batches_from(log.start_offset))

    def _delete_logs(self, topic: Topic) -> None:
        for partition in topic.partitions:
            self._files.pop(partition).delete()

    # --- offsets

    def _restore_offsets(self, broker: Broker) -> None:
        """Read the journal, and replace it with one that has only current offsets."""
        path = self._path / "offsets.jsonl"
        offsets = broker.classic_groups.offsets
        for line in path.read_bytes().splitlines() if path.exists() else []:
            try:
                group, topic, index, *rest = json.loads(line)
            except ValueError:
                break  # the last line is incomplete
            if rest:
                offsets.commit(group, (topic, index), CommittedOffset(*rest))
            else:
                offsets.forget_committed(group, [(topic, index)])
        lines = [
            _line(group, partition, offset)
            for group in offsets.groups()
            for partition, offset in offsets.of(group).items()
        ]
        _replace(path, b"".join(lines))
        self._journal = path.open("ab")

    def _write_offset(self, group: str, partition: TopicPartition, offset: CommittedOffset | None) -> None:
        if self._journal is not None:
            self._journal.write(_line(group, partition, offset))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads(path.read_bytes())
    except ValueError as problem:
        raise UnreadableFolder(f"{path.name} is not valid JSON: {problem}") from None
    return state


def _line(group: str, partition: TopicPartition, offset: CommittedOffset | None) -> bytes:
    row: list[object] = [group, *partition]
    if offset is not None:
        row += [offset.offset, offset.leader_epoch, offset.metadata]
    return json.dumps(row).encode() + b"\n"


def _replace(path: Path, content: bytes) -> None:
    """Replace a file atomically: it always has either the old or the new content."""
    new_path = path.with_name(path.name + ".new")
    new_path.write_bytes(content)
    new_path.replace(path)
