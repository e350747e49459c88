"""A model of everything around `Custody`: share-partitions, Spark's two logs, and a sink idempotent by batch id.

Each step is a separate call, so that a test can crash between any two of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kshare.spark.driver.custody import Custody
from kshare.spark.driver.decisions import Decisions, Verdict
from kshare.spark.driver.offset_sets import PartitionRange
from kshare.spark.driver.verdict_log import VerdictLog
from kshare.spark.journal.frames import skip
from kshare.spark.options import Settle
from kshare.spark.ranges import JournalPosition, RecordRange, Token
from kshare.state.lease import TopicIdPartition

PARTITIONS: tuple[TopicIdPartition, ...] = ((b"\1" * 16, 0), (b"\1" * 16, 1))

Record = tuple[TopicIdPartition, int]


class World:
    """The group also has other consumers, which may acquire free records, and then accept or release them.

    `is_older`: Spark before 4.2, which doesn't pass its current offset when it asks for the latest one. `folder`:
    where verdicts of single rows survive a crash.
    """

    def __init__(
        self,
        records: int,
        settle: Settle,
        *,
        by_row: bool = False,
        is_older: bool = False,
        folder: Path | None = None,
    ) -> None:
        self.log: dict[Record, str] = {
            (partition, at): "free" for partition in PARTITIONS for at in range(records)
        }
        self.offset_log: dict[int, Token] = {}
        self.commit_log: set[int] = set()
        self.sink: dict[int, tuple[Record, ...]] = {}
        self.worked_on_by_others: list[Record] = []
        self.settle, self.by_row, self.is_older, self.folder = settle, by_row, is_older, folder
        self.journal: list[RecordRange] = []
        """What was ever appended to the journal, in order."""
        self.frame: tuple[RecordRange, ...] = ()
        """What is being appended."""
        self.is_written: tuple[RecordRange, ...] = ()
        """What has been appended, while the process doesn't know that yet."""
        self.judged: dict[int, dict[Record, Verdict]] = {}
        """By batch id: what the user decided when the batch was last processed."""
        self.start()

    # --- the process

    def start(self) -> None:
        """Start a new process. Spark replays a batch that was logged and not committed."""
        self.custody = Custody(self.settle, by_row=self.by_row)
        self.requests: list[Decisions] = []
        self.planned: Token | None = None
        self.reading: tuple[RecordRange, ...] | None = None
        self.batch = max(self.offset_log, default=-1)
        self.verdict_log = VerdictLog(self.folder, "model") if self.folder else None
        self.frame = self.is_written = ()
        if self.settle == "journal":
            self._open_journal()
        if self.is_older and self.offset_log:
            last = self.offset_log[self.batch]
            self.custody.read(last, last, is_logged=True)
        if self.offset_log and self.batch not in self.commit_log:
            self.plan_is_logged()

    def _open_journal(self) -> None:
        last = self.offset_log[self.batch] if self.offset_log else Token()
        known = last.journal or JournalPosition("journal", "a list", 0)
        assert last.journal is not None or not self.journal, "no token in the log knows the journal"
        self.custody.adopt_journal(known, skip(self.journal, known.taken))

    # --- the journal

    def begin_frame(self) -> None:
        if not self.is_written:
            self.frame = self.frame or self.custody.next_frame()

    def write_frame(self) -> None:
        """The frame is durable."""
        if self.frame:
            self.journal += self.frame
            frame, self.frame = self.frame, ()
            self.is_written = frame

    def end_frame(self) -> None:
        """The process hears that the frame is durable."""
        if self.is_written:
            frame, self.is_written = self.is_written, ()
            self._send(self.custody.appended(frame))

    def crash(self) -> None:
        self.lose_session()
        self.start()

    def lose_session(self) -> None:
        """All our locks are released, and requests in flight are lost."""
        self.requests.clear()
        for record, state in self.log.items():
            if state == "ours":
                self.log[record] = "free"
                self.custody.lost(PartitionRange(record[0], record[1], record[1]))

    # --- the broker

    def fetch(self, partition: TopicIdPartition, max_records: int) -> None:
        """Acquire consecutive free records, as a broker does."""
        found: list[int] = []
        for (where, at), state in self.log.items():
            if where == partition and state == "free" and (not found or at == found[-1] + 1):
                found.append(at)
        found = found[:max_records]
        if not found or self.custody.resume() is None:
            return
        for at in found:
            self.log[partition, at] = "ours"
        self._send(self.custody.acquired("orders", PartitionRange(partition, found[0], found[-1]), 1))

    def serve(self, *, has_response: bool) -> None:
        """Carry out the oldest request. If its response is lost, so is the session."""
        if not self.requests:
            return
        asked = self.requests.pop(0)
        later = [span for span, _ in asked.release_later]
        for spans, becomes in (
            (asked.accept, "done"),
            (asked.reject, "done"),
            ([*asked.release, *later], "free"),
        ):
            for span in spans:
                for at in range(span.first, span.last + 1):
                    if self.log[span.partition, at] == "ours":
                        self.log[span.partition, at] = becomes
                        if has_response and becomes == "done":
                            self.custody.confirmed(PartitionRange(span.partition, at, at))
                        elif becomes == "free":
                            self.custody.lost(PartitionRange(span.partition, at, at))
        if not has_response:
            self.lose_session()

    def other_takes(self, partition: TopicIdPartition, max_records: int) -> None:
        free = [record for record, state in self.log.items() if record[0] == partition and state == "free"]
        for record in free[:max_records]:
            self.log[record] = "theirs"

    def other_ends(self, *, is_done: bool) -> None:
        for record, state in self.log.items():
            if state == "theirs":
                self.log[record] = "done" if is_done else "free"
                if is_done:
                    self.worked_on_by_others.append(record)

    # --- Spark

    def ask_latest(self, limit: int) -> None:
        """latestOffset, up to the token, which isn't durable yet."""
        if self.planned is not None or self.reading is not None:
            return
        start = self.offset_log[self.batch] if self.offset_log else Token()
        if self.is_older:
            start = self.custody.resume() or Token()
        is_restart = not self.custody.has_begun
        verdicts = self.verdict_log.read(start.batch) if self.verdict_log and is_restart else None
        self._send(self.custody.complete(start, verdicts))
        self.planned = self.custody.plan(limit)

    def log_plan(self) -> None:
        if self.planned is not None:
            self.batch += 1
            self.offset_log[self.batch], self.planned = self.planned, None
            self.plan_is_logged()

    def plan_is_logged(self) -> None:
        """The batch is in the offset log, so Spark reads it."""
        start = self.offset_log.get(self.batch - 1, Token())
        self.judged[self.batch] = {}
        self.read(start)

    def read(self, start: Token) -> None:
        end = self.offset_log[self.batch]
        self.reading, decisions = self.custody.read(start, end, is_logged=True)
        self._send(decisions)
        if self.verdict_log and end.is_settled_by_row:
            self.verdict_log.begin(end.batch)

    def read_again(self) -> None:
        """Spark may read a batch twice."""
        if self.reading is not None:
            self.read(self.offset_log.get(self.batch - 1, Token()))

    def write_sink(self) -> None:
        """Idempotent by batch id: the first write of a batch wins."""
        if self.reading is not None:
            self.sink.setdefault(self.batch, tuple(_records(self.reading)))

    def settle_row(self, index: int, verdict: Verdict) -> None:
        """Settle one row, as foreachBatch does, once the batch is in the sink."""
        if self.reading is None or self.batch not in self.sink or self.batch in self.commit_log:
            return
        rows = self.sink[self.batch]
        partition, at = rows[index % len(rows)]
        if self.custody.settle_rows(PartitionRange(partition, at, at), verdict):
            self.judged[self.batch][partition, at] = verdict
            if self.verdict_log:
                self.verdict_log.write(self.offset_log[self.batch].batch, self.custody.verdicts)

    def commit(self) -> None:
        if self.reading is not None and self.batch in self.sink:
            self.commit_log.add(self.batch)
            self.reading = None

    def _send(self, decisions: Decisions) -> None:
        if decisions:
            self.requests.append(decisions)

    # --- results

    def emitted(self) -> list[Record]:
        """All records in the sink."""
        return [record for rows in self.sink.values() for record in rows]

    def finish(self) -> None:
        """Process everything that is left, without further faults."""
        self.other_ends(is_done=False)
        for _ in range(20 + 4 * len(self.log)):
            for _ in range(1 + len(self.requests)):
                self.serve(has_response=True)
            for partition in PARTITIONS:
                self.fetch(partition, 5)
            self.begin_frame()
            self.write_frame()
            self.end_frame()
            if self.reading is None and self.planned is None:
                self.ask_latest(7)
            self.log_plan()
            self.write_sink()
            self.commit()
            if set(self.log.values()) == {"done"} and not self.requests and not self.custody.fresh:
                return
        raise AssertionError(f"not all records were settled: {self.log}")


def _records(ranges: tuple[RecordRange, ...]) -> Iterator[Record]:
    for range_ in ranges:
        for at in range(range_.first, range_.last + 1):
            yield (PARTITIONS[range_.partition], at)
