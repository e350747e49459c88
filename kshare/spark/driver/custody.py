"""Which component owns an unacknowledged record. These rules ensure that nothing is lost and nothing is emitted twice.

Every offset that a broker has acquired for this query is in one of these states:

    state      | meaning                                  | survives a crash by
    -----------+------------------------------------------+-------------------------------------------------------
    fresh      | acquired, in no token yet                | being released with the session and redelivered
    staged     | in the journal, accepted, in no token    | the journal: see `staging`
    in flight  | in the token whose batch isn't complete  | `acquired` of that token, which is replayed as it is
    owed       | emitted, its acceptance isn't confirmed  | `acquired` of the completed token, and then `owed` of
               |                                          | the tokens after it, until it is confirmed
    done       | confirmed                                | the broker's own log

    event                                    | effect
    -----------------------------------------+---------------------------------------------------------------------
    acquired: is owed                        | accepted at once, not emitted again
    acquired: is in flight                   | held for the batch that is being worked on
    acquired: is neither                     | fresh
    a token is planned                       | fresh → in flight
    Spark is about to read the token, which  | custody `checkpoint`: in flight → owed, accepted at once
    proves that its log holds it             |
    Spark asks for the token after it, which | in flight → owed, accepted (rows that the user settled otherwise
    proves that the batch is complete        | are settled that way, released ones after a delay, and are not owed)
    with a journal: acquired, and Spark's    | written to the journal first; then staged, accepted at once, and
    log has a token that knows the journal   | owed until that is confirmed. Tokens are made of what is staged
    acceptance confirmed                     | owed → done
    lock lost, session ended                 | fresh → forgotten; the rest stays as it is, and is redelivered
    the group's start passes an offset, or   | owed → done: it won't be redelivered
    its lag is 0, or the topic is deleted    |
    Spark begins with a token that another   | replay: its `acquired` are in flight; otherwise they are owed;
    process made (a restart)                 | its `owed` are owed
    that process knew of acceptances that    | not owed: if the group delivers them, its offsets were reset, and they
    its token doesn't know (`QueryMark`)     | are emitted again
    the group's start offset has gone back   | owed → unknown: the same
    Spark reads from a start that the plan   | what the start holds is owed, and left out of what is read, now and
    didn't know (PySpark 4.0 and 4.1)        | at each replay

Decides what is emitted, accepted and released. Never reads a clock, never sends anything, never calls Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from uuid import UUID

from kshare.spark.driver.decisions import Decisions, Delayed, Verdict, Verdicts
from kshare.spark.driver.offset_sets import OffsetSet, PartitionRange, span_of, spans_of
from kshare.spark.driver.query_mark import QueryMark
from kshare.spark.driver.range_queue import CountedRange, RangeQueue
from kshare.spark.driver.staging import Staging
from kshare.spark.options import Settle
from kshare.spark.ranges import JournalPosition, RecordRange, StartOffset, Token, TokenError, merged_ranges
from kshare.state.lease import TopicIdPartition


class Custody:
    """The offsets of one query, in one process."""

    def __init__(self, settle: Settle = "sink", *, by_row: bool = False, group: str = "") -> None:
        self.settle = settle
        self.skipped = 0
        """Offsets that were redelivered after they had been emitted, and accepted without being emitted again."""
        self.names: dict[bytes, str] = {}
        self._by_row = by_row
        self._group = group
        self._last: Token | None = None
        """The newest token that Spark may know of."""
        self._replayed: Token | None = None
        """A token that is known to be in Spark's log, while it isn't known whether its batch is complete."""
        self._adopted_start: Token | None = None
        """The start of the newest token, if it wasn't known before the token was read."""
        self._fresh = RangeQueue()
        self._staging: Staging | None = None
        """With `settle=journal`, once the journal is open."""
        self._is_journaling = False
        """Whether Spark's log certainly has a token that knows the journal. Before that, nothing may be in it only."""
        self._in_flight = OffsetSet()
        self._is_flight_journaled = False
        """Whether what is in flight was accepted when it was staged."""
        self._unconfirmed = OffsetSet()
        self._deleted_topics: set[bytes] = set()
        self._verdicts: dict[Verdict, OffsetSet] = {}
        self._ends: Mapping[tuple[str, int], int] | None = None
        self._begun = 0
        """The newest micro-batch that Spark may have read."""
        self._covered = 0
        """The newest one whose records were accepted, or are owed."""
        self._mark: QueryMark | None = None
        """What the process before this one knew."""
        self._gone_back: set[TopicIdPartition] = set()

    # --- what is known

    @property
    def has_begun(self) -> bool:
        """Whether Spark has passed the query's position. Before that, nothing may be acquired."""
        return self._last is not None

    @property
    def fresh(self) -> int:
        """The number of offsets that are available for the next token."""
        return self._fresh.total if self._staging is None else self._fresh.total + self._staging.staged.total

    @property
    def waiting(self) -> int:
        """The number of offsets that have to be written to the journal before they are available."""
        return 0 if self._staging is None else self._staging.waiting.total + self._staging.writing

    @property
    def is_journaling(self) -> bool:
        return self._is_journaling

    @property
    def journal(self) -> JournalPosition | None:
        """Where the journal continues after the newest token."""
        return None if self._staging is None else self._staging.position

    @property
    def in_flight(self) -> int:
        return self._in_flight.total

    @property
    def owed(self) -> int:
        return self._unconfirmed.total

    def owed_spans(self) -> list[PartitionRange]:
        return [*self._unconfirmed]

    @property
    def mark(self) -> QueryMark | None:
        """What the next process should know, even if it gets another checkpoint; None before a batch is begun."""
        if not self._begun:
            return None
        return QueryMark(self._begun, self._covered, self._emitted_unconfirmed())

    # --- the past

    def recall(self, mark: QueryMark | None) -> None:
        """The mark of the process before this one. To be called before Spark's first token is taken over."""
        self._mark = mark

    def went_back(self, partition: TopicIdPartition) -> None:
        """The group's offset in this partition was set to an earlier one: what it delivers is to be emitted again."""
        self._gone_back.add(partition)
        staged = (
            OffsetSet() if self._staging is None else self._unconfirmed.common(self._staging.staged.offsets)
        )
        self._unconfirmed.forget(partition)
        for span in staged:
            self._unconfirmed.add(span)

    # --- Spark's side

    def complete(self, start: Token, verdicts: Verdicts | None = None) -> Decisions:
        """Spark asks for what comes after `start`, so the batch of `start` is complete.

        `verdicts`: for a token that another process made, the user's decisions for single rows, if they are known.
        """
        last = self._last
        if last is None:
            return self._take_over(start, is_complete=True, verdicts=verdicts)
        if start == last:
            return self._complete_in_flight()
        if start.batch < last.batch:
            # Spark never logged our last plan, so it is void: its records are released and will be redelivered.
            back = Decisions(release=[*self._in_flight])
            if self._is_flight_journaled and self._staging is not None:
                self._staging.put_back()
                back = Decisions()
            self._last, self._in_flight, self._verdicts = start, OffsetSet(), {}
            self._covered = start.batch
            return back
        raise TokenError(
            f"Spark continues after batch {start.batch} of this source, but knows only batch {last.batch}: is the "
            "checkpoint used by another query at the same time? Give each its own checkpointLocation and output path"
        )

    def plan(self, limit: int, starts: tuple[StartOffset, ...] = ()) -> Token | None:
        """Make a token of at most `limit` fresh records; None if there are none. Call `complete` before.

        `starts`: the group's start offsets, as last requested.
        """
        assert self._last is not None, "Spark has passed its position before"
        assert not self._in_flight, "one batch at a time"
        staging = self._staging
        is_journaled = self._is_journaling and staging is not None
        taken = staging.take(limit) if staging and is_journaled else self._fresh.take(limit)
        ranges = tuple(self._range(*counted) for counted in taken)
        if not ranges:
            return None
        self._is_flight_journaled = is_journaled
        self._last = Token(
            self._last.batch + 1,
            merged_ranges(ranges),
            self._emitted_unconfirmed(),
            self._by_row,
            self._last.member,
            self._group,
            self.journal,
            starts,
        )
        for range_ in ranges:
            self._in_flight.add(span_of(range_))
        return self._last

    def release_fresh(self) -> Decisions:
        """Release what is in no token yet. It will be redelivered."""
        back = Decisions(release=[*self._fresh.offsets])
        self._fresh = RangeQueue()
        return back

    def read(self, start: Token, end: Token, *, is_logged: bool) -> tuple[tuple[RecordRange, ...], Decisions]:
        """Spark is about to read from `start` to `end`. Returns the ranges to read, and what to accept now.

        `is_logged`: whether Spark's log certainly has `end`.
        """
        if start == end:
            # The first call of PySpark 4.0 and 4.1. Their next call tells whether the batch is complete.
            self._replayed = end if self._last is None else None
            return (), Decisions()
        decisions = Decisions()
        if self._last is None:
            decisions = self._take_over(end, is_complete=False)
            is_logged = True
        elif end != self._last:
            raise TokenError(
                f"Spark reads batch {end.batch} of this source, but batch {self._last.batch} was planned: is the "
                "checkpoint used by another query at the same time? Give each its own checkpointLocation and output "
                "path"
            )
        self._begun = end.batch
        ranges = end.acquired
        if not end.follows(start):
            emitted = self._emitted(start)
            ranges = tuple(_outside(ranges, emitted))
            if start != self._adopted_start:
                self._adopted_start = start
                self._name_topics((*start.acquired, *start.owed))
                decisions.accept += self._take_over_unconfirmed(emitted)
        if is_logged:
            self._begin_journaling(end)
            if self._is_flight_journaled:
                self._covered = end.batch
        if self.settle == "checkpoint" and is_logged:
            accept = [*self._in_flight]
            decisions.accept += accept
            self._add_unconfirmed(accept)
            self._in_flight = OffsetSet()
            self._covered = end.batch
        return ranges, decisions

    def resume(self) -> Token | None:
        """The newest token, for versions of Spark that don't pass their position."""
        return self._last or self._replayed

    def settle_rows(self, span: PartitionRange, verdict: Verdict | None) -> int:
        """Note the user's decision for these, to apply it with the batch. Returns how many are in flight."""
        matching = self._in_flight.within(span)
        if verdict is not None:
            for other in self._verdicts.values():
                other.remove(span)
            for part in matching:
                self._verdicts.setdefault(verdict, OffsetSet()).add(part)
        return sum(part.size for part in matching)

    @property
    def verdicts(self) -> Verdicts:
        """The user's decisions so far for the batch in flight."""
        return {verdict: [*spans] for verdict, spans in self._verdicts.items()}

    def limit_to(self, ends: Mapping[tuple[str, int], int]) -> None:
        """From now on, emit only records before these offsets, and none of other topics and partitions.

        If the broker delivers others, they are kept locked: released ones would be redelivered at once, repeatedly.
        """
        self._ends = ends

    # --- the brokers' side

    def acquired(self, topic: str, span: PartitionRange, delivery_count: int) -> Decisions:
        """The broker has acquired these for us."""
        self.names[span.partition[0]] = topic
        already_accepted = self._unconfirmed.within(span)
        unknown = self._unconfirmed.outside(span)
        if self._is_flight_journaled:
            already_accepted += [found for part in unknown for found in self._in_flight.within(part)]
        if self._staging is not None:
            already_accepted += [
                found for part in unknown for found in self._staging.staged.offsets.within(part)
            ]
            unknown = [found for part in unknown for found in self._staging.unknown(part)]
        self.skipped += sum(part.size for part in already_accepted)
        for part in unknown:
            for outside in self._in_flight.outside(part):
                for new in self._fresh.offsets.outside(outside):
                    self._add_fresh(new, delivery_count)
        return Decisions(accept=already_accepted)

    def lost(self, span: PartitionRange) -> None:
        """Their lock is lost: they will be redelivered, perhaps to us."""
        self._fresh.remove(span)
        if self._staging is not None:
            self._staging.waiting.remove(span)

    def confirmed(self, span: PartitionRange) -> None:
        """The broker has confirmed these: they won't be redelivered."""
        self._unconfirmed.remove(span)

    def start_moved(self, partition: TopicIdPartition, offset: int) -> None:
        """The group's start offset in this partition is `offset`: everything before it is done."""
        self._unconfirmed.remove(PartitionRange(partition, 0, offset - 1))

    def topic_gone(self, topic_id: bytes) -> None:
        """The topic was deleted: none of its records can be redelivered or accepted any more."""
        self._deleted_topics.add(topic_id)
        for partition in self._unconfirmed.partitions():
            if partition[0] == topic_id:
                self._unconfirmed.forget(partition)

    # --- the journal

    def adopt_journal(self, position: JournalPosition, staged: Iterable[RecordRange]) -> None:
        """The journal is open, and has this staged after what the newest token in Spark's log has."""
        ranges = [CountedRange(span_of(range_), range_.delivery_count) for range_ in staged]
        self._staging = Staging(position, ranges)
        self._name_topics(staged)
        # Their acceptance may not have been sent, or not confirmed.
        self._add_unconfirmed(range_.span for range_ in ranges)

    def next_frame(self) -> tuple[RecordRange, ...]:
        """What to append to the journal now; empty if there is nothing. Call `appended` once it is durable."""
        frame = [] if self._staging is None else self._staging.next_frame()
        return tuple(self._range(*counted) for counted in frame)

    def appended(self, frame: Iterable[RecordRange]) -> Decisions:
        """This frame is in the journal, so its records can be accepted."""
        assert self._staging is not None, "it has made the frame"
        ranges = [CountedRange(span_of(range_), range_.delivery_count) for range_ in frame]
        self._staging.appended(ranges)
        decisions = Decisions(accept=[range_.span for range_ in ranges])
        self._add_unconfirmed(decisions.accept)
        return decisions

    def _begin_journaling(self, logged: Token) -> None:
        """Spark's log has this token. If it knows the journal, a restarted query will find what is staged."""
        if self._staging is None or logged.journal is None or self._is_journaling:
            return
        self._is_journaling = True
        while counted := self._fresh.take_first():
            self._staging.waiting.add_by_deliveries(*counted)

    def _emitted_unconfirmed(self) -> tuple[RecordRange, ...]:
        """What is owed. Staged records aren't emitted yet; the journal has them."""
        staged = OffsetSet() if self._staging is None else self._staging.staged.offsets
        return tuple(self._range(part, 1) for span in self._unconfirmed for part in staged.outside(span))

    # --- inside

    def _take_over(self, token: Token, *, is_complete: bool, verdicts: Verdicts | None = None) -> Decisions:
        """Continue with a token that another process made."""
        self._last, self._replayed = token, None
        self._name_topics((*token.acquired, *token.owed))
        self._begin_journaling(token)
        self._is_flight_journaled = token.is_journaled
        if not is_complete:
            for range_ in token.acquired:
                self.lost(span_of(range_))
                self._in_flight.add(span_of(range_))
            if token.is_journaled:
                # The other process may have ended before their acceptance was confirmed.
                self._add_unconfirmed(map(span_of, token.acquired))
        self._begun = token.batch
        self._covered = token.batch if is_complete else token.batch - 1
        emitted = self._emitted(token, verdicts) if is_complete else self._emitted_before(token)
        return Decisions(accept=self._take_over_unconfirmed(emitted))

    def _emitted(self, token: Token, verdicts: Verdicts | None = None) -> OffsetSet:
        """What is owed when the batch of this token, which another process made, is complete."""
        emitted = self._emitted_before(token)
        # If it isn't known which rows the user settled otherwise, emit them twice rather than lose some.
        if not token.is_settled_by_row or verdicts is not None:
            for span in self._not_accepted(spans_of(token.acquired), token.batch):
                emitted.add(span)
        for spans in (verdicts or {}).values():
            for span in spans:
                emitted.remove(span)
        return emitted

    def _emitted_before(self, token: Token) -> OffsetSet:
        """What was owed when this token was planned."""
        return self._not_accepted(spans_of(token.owed), token.batch - 1)

    def _not_accepted(self, emitted: OffsetSet, batch: int) -> OffsetSet:
        """Without those that can be redelivered only because the group's offsets were reset."""
        owed = emitted if self._mark is None else self._mark.still_owed(emitted, batch)
        for partition in self._gone_back:
            owed.forget(partition)
        return owed

    def _take_over_unconfirmed(self, emitted: OffsetSet) -> list[PartitionRange]:
        """These were emitted by another process. Returns those that are already held, to be accepted now."""
        held: list[PartitionRange] = []
        for span in [*emitted]:
            held += [*self._fresh.offsets.within(span), *self._in_flight.within(span)]
            if self._staging is not None:
                held += self._staging.waiting.offsets.within(span)
            self.lost(span)
            self._in_flight.remove(span)
        self._add_unconfirmed(emitted)
        self.skipped += sum(part.size for part in held)
        return held

    def _name_topics(self, ranges: Iterable[RecordRange]) -> None:
        for range_ in ranges:
            self.names[UUID(range_.topic_id).bytes] = range_.topic

    def _complete_in_flight(self) -> Decisions:
        decisions = Decisions()
        if self._last is not None:
            self._begin_journaling(self._last)
            self._begun = self._covered = self._last.batch
        if self._is_flight_journaled:
            self._in_flight = OffsetSet()
            return decisions
        otherwise = self._verdicts
        for verdict, spans in otherwise.items():
            if verdict == "reject":
                decisions.reject.extend(spans)
            else:
                decisions.release_later.extend(self._counted(spans))
            for span in spans:
                self._in_flight.remove(span)
        decisions.accept = [*self._in_flight]
        self._add_unconfirmed(decisions.accept)
        self._in_flight, self._verdicts = OffsetSet(), {}
        return decisions

    def _counted(self, spans: OffsetSet) -> Iterator[Delayed]:
        """These rows of the newest token, with their delivery counts."""
        for range_ in self._last.acquired if self._last is not None else ():
            for part in spans.within(span_of(range_)):
                yield part, range_.delivery_count

    def _add_unconfirmed(self, spans: Iterable[PartitionRange]) -> None:
        for span in spans:
            if span.partition[0] not in self._deleted_topics:
                self._unconfirmed.add(span)

    def _add_fresh(self, span: PartitionRange, delivery_count: int) -> None:
        if self._ends is not None:
            where = (self.names[span.partition[0]], span.partition[1])
            span = PartitionRange(span.partition, span.first, min(span.last, self._ends.get(where, 0) - 1))
        if span.first <= span.last:
            into = self._staging.waiting if self._staging and self._is_journaling else self._fresh
            into.add_by_deliveries(span, delivery_count)

    def _range(self, span: PartitionRange, delivery_count: int) -> RecordRange:
        topic_id, number = span.partition
        name = self.names[topic_id]
        return RecordRange(name, str(UUID(bytes=topic_id)), number, span.first, span.last, delivery_count)


def _outside(ranges: Iterable[RecordRange], spans: OffsetSet) -> Iterator[RecordRange]:
    for range_ in ranges:
        for part in spans.outside(span_of(range_)):
            yield replace(range_, first=part.first, last=part.last)
