"""Keeps dead letters that weren't chosen from being archived.

Every run delivers all dead letters of the topic, and the broker archives one that is released when it has been
delivered as often as the group allows: it would count as settled, though nobody redrove or dropped it. So before that
happens, it's written to its topic again, as a new dead letter that was never delivered, and the old one is accepted. If
that is interrupted, both are open: `duplicates` recognises them.
"""

from __future__ import annotations

from collections.abc import Sequence

from kshare.client.record import ShareRecord
from kshare.dead_letters.dead_letter import MOVED_FIRST, MOVED_FROM, MOVED_HEADERS, PREFIX, DeadLetter, Origin
from kshare.dead_letters.duplicates import HeldLetter
from kshare.dead_letters.letter_states import LetterStates
from kshare.dead_letters.writing import MOST_HEADERS, too_many_headers, write_each
from kshare.errors import KshareError
from kshare.producer.records import NewRecord, copied_record
from kshare.producer.writer import RecordWriter

_SPARE = 2
"""Deliveries that are kept for runs that are killed, and for what a consumer fetches and gives back unread."""


class LetterMover:
    """`most_deliveries` is the delivery count limit of the group that keeps track."""

    def __init__(self, writer: RecordWriter, most_deliveries: int, states: LetterStates | None) -> None:
        """`states` are those at the start, or None if they may not be read."""
        self._writer = writer
        self.most_deliveries = most_deliveries
        self._due_at = max(1, most_deliveries - _SPARE)
        delivered = states.delivered if states else {}
        self.endangered = {place for place, count in delivered.items() if count >= max(1, self._due_at - 1)}
        """Dead letters that must be moved, or settled, when they are delivered next."""

    def is_due(self, record: ShareRecord) -> bool:
        return record.delivery_count >= self._due_at

    async def write_again(self, held: Sequence[HeldLetter]) -> list[Origin | KshareError]:
        """Write dead letters of one partition to it again. Returns where each is now, or why it wasn't written.

        A copy is larger than its dead letter: one that nearly fills max.message.bytes can't be written.
        """
        first = held[0][1]
        new = [_moved(record, letter) for record, letter in held if record.header_count <= MOST_HEADERS]
        written = iter(await write_each(self._writer, first.topic, first.partition, new) if new else ())
        outcomes: list[int | KshareError] = [
            next(written)
            if record.header_count <= MOST_HEADERS
            else KshareError(too_many_headers(record.header_count))
            for record, _ in held
        ]
        return [
            outcome if isinstance(outcome, KshareError) else Origin(first.topic, first.partition, outcome)
            for outcome in outcomes
        ]


def _moved(record: ShareRecord, letter: DeadLetter) -> NewRecord:
    copy = copied_record(record)
    if not letter.is_dead_letter:
        return copy  # such a header would make it one
    headers = [header for header in copy.headers if header[0].removeprefix(PREFIX) not in MOVED_HEADERS]
    headers.append((PREFIX + MOVED_FROM, letter.place.encode()))
    if letter.moved_from is not None:
        headers.append((PREFIX + MOVED_FIRST, letter.first_place.encode()))
    return NewRecord(copy.value, copy.key, headers, copy.timestamp)
