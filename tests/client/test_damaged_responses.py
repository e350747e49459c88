"""Recorded responses to ShareFetch with flipped bits, truncated, or with false fields: no record is taken for a gap.

The responses are from real brokers of three releases (`tools/share_responses.py`). Damage must be noticed unless it
makes no difference. Where nothing else in a response contradicts the damage, it can't be noticed: these fields are
listed.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterator

import pytest

from kshare.protocol.messages.share_fetch_response import PartitionData
from tests.client.damage import AckOutcome, Placed, Recorded, fields, outcome, placed, recorded, stored
from tests.helpers.batch_bytes import recheck

pytestmark = pytest.mark.lengthy

BELIEVED = {
    "firstOffset": "fewer records than the broker acquired: their lock expires, and they are redelivered",
    "lastOffset": "the same",
    "deliveryCount": "only shown to the user",
    "acquisitionLockTimeoutMs": "the consumer renews too late or too early: the broker refuses, and redelivers",
    "partitionLeaderEpoch": "only used to recognize accepted records; at worst a duplicate",
    "partitionIndex": "if the response has nothing for the session's other partition",
}
"""Fields that nothing else in a response contradicts, and what follows if they are wrong."""


def flips(size: int, number: int, is_thorough: bool) -> Iterator[tuple[int, int]]:
    """Positions and bits: all, or one bit of every seventh byte, which differs from response to response."""
    if is_thorough:
        yield from itertools.product(range(size), range(8))
    else:
        yield from ((position, position * 5 % 8) for position in range(number % 7, size, 7))


@pytest.mark.parametrize(
    "is_thorough", [False, pytest.param(True, marks=[pytest.mark.long, pytest.mark.timeout(1800)])]
)
def test_flipped_bits_never_turn_a_record_into_a_gap(is_thorough: bool) -> None:
    responses = recorded()
    assert len(responses) >= 100
    wrong: list[object] = []
    for number, recording in enumerate(responses):
        judge, names = Judge(recording), fields(recording)
        for position, bit in flips(len(names), number, is_thorough):
            name = names[position]
            frame = bytearray(recording.frame)
            frame[position] ^= 1 << bit
            found = outcome(recording, bytes(frame))
            is_loose = name == "baseOffset" and judge.is_loose(position)
            if not is_loose:
                wrong += judge.wrong(found, f"{name} at {position}, bit {bit}", is_believed=name in BELIEVED)
    assert wrong == []


def test_moved_batches_go_unnoticed_only_beside_gaps() -> None:
    """No checksum covers a base offset. Beside a gap that compaction left, nothing contradicts another offset."""
    lost = 0
    for recording in recorded():
        truth = stored(recording)
        for batch in placed(recording):
            for bit in range(16):
                frame = bytearray(recording.frame)
                frame[batch.start + 7 - bit // 8] ^= 1 << bit % 8
                found = outcome(recording, bytes(frame))
                assert batch.is_loose or (found.is_noticed and not found.lost(truth)), (
                    recording.name,
                    batch,
                    bit,
                )
                lost += bool(found.lost(truth))
    assert lost < 100


def test_truncated_records_are_released() -> None:
    """Truncated frames, and truncated batches in complete frames."""
    wrong: list[object] = []
    for number, recording in enumerate(recorded()):
        judge = Judge(recording)
        for size in range(number % 17, len(recording.frame), 17):
            assert outcome(recording, recording.frame[:size]).is_noticed
        for changed, data in partitions_of(recording):
            records = bytes(data.records or b"")
            for size in range(number % 7, len(records), 7):
                data.records = records[:size]
                wrong += judge.wrong(outcome(recording, changed()), f"records cut to {size} bytes")
            data.records = records
    assert wrong == []


def test_false_batch_headers_never_turn_a_record_into_a_gap() -> None:
    """The checksum is corrected, so that only records, neighbours and acquired ranges contradict the header."""
    wrong: list[object] = []
    for recording in recorded():
        judge = Judge(recording)
        for batch in placed(recording):
            if batch.is_loose:
                continue
            for name, layout, position in (
                ("base offset", ">q", 0),
                ("length", ">i", 8),
                ("last offset delta", ">i", 23),
                ("record count", ">i", 57),
            ):
                for change in (-1000, -7, -2, -1, 1, 2, 7, 1000):
                    frame = bytearray(recording.frame)
                    (said,) = struct.unpack_from(layout, frame, batch.start + position)
                    struct.pack_into(layout, frame, batch.start + position, said + change)
                    if name in ("last offset delta", "record count"):
                        whole = frame[batch.start : batch.end]
                        recheck(whole)
                        frame[batch.start : batch.end] = whole
                    found = outcome(recording, bytes(frame))
                    # Offsets after the last record, none of which was acquired, make no difference.
                    is_idle = name == "last offset delta" and found[:3] == judge.sound[:3]
                    wrong += judge.wrong(found, f"{name} {said}{change:+}", is_believed=is_idle)
    assert wrong == []


def test_reordered_or_repeated_batches_are_released() -> None:
    wrong: list[object] = []
    for recording in recorded():
        judge = Judge(recording)
        for changed, data in partitions_of(recording):
            records = bytes(data.records or b"")
            base = recording.frame.find(records)
            parts = [
                recording.frame[batch.start : batch.end]
                for batch in placed(recording)
                if base <= batch.start < base + len(records)
            ]
            for at in range(len(parts) - 1):
                swapped = [*parts[:at], parts[at + 1], parts[at], *parts[at + 2 :]]
                twice = [*parts[: at + 1], *parts[at:]]
                for name, order in (("swapped", swapped), ("twice", twice)):
                    data.records = b"".join(order)
                    found = outcome(recording, changed())
                    wrong += judge.wrong(found, f"{name} at {at}")
                    if not found.is_noticed:
                        wrong.append((recording.name, name, at, "unnoticed"))
            data.records = records
    assert wrong == []


class Judge:
    """Compares what a consumer makes of a damaged response with what it makes of the undamaged one."""

    def __init__(self, recording: Recorded) -> None:
        self.recording = recording
        self.sound = outcome(recording, recording.frame)
        self.truth = stored(recording)
        self._loose: list[Placed] = [batch for batch in placed(recording) if batch.is_loose]

    def is_loose(self, position: int) -> bool:
        return any(batch.start <= position < batch.end for batch in self._loose)

    def wrong(self, found: AckOutcome, what: str, *, is_believed: bool = False) -> list[object]:
        """What contradicts the rule: records lost as gaps, or unnoticed damage."""
        if lost := found.lost(self.truth):
            return [(self.recording.name, what, "gaps", lost)]
        is_news = found.is_noticed and (not self.sound.is_noticed or found[:3] != self.sound[:3])
        if not found.is_like(self.sound) and not is_news and not is_believed:
            return [(self.recording.name, what, "unnoticed")]
        return []


def partitions_of(recording: Recorded) -> Iterator[tuple[Callable[[], bytes], PartitionData]]:
    """Each partition's data, to be changed in place, and a function that returns the changed frame."""
    response = recording.response()
    for topic in response.responses:
        for data in topic.partitions:
            yield (lambda: recording.with_response(response)), data
