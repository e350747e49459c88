"""What a sequence of frames amounts to: claims, superseded writers, gaps and damage."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kshare.spark.journal.frames import Frame, JournalDamaged, encode
from kshare.spark.journal.replay import JournalContents, replay, replay_to_damage
from kshare.spark.ranges import RecordRange

PLACE = "topic journal"


def frame(start: int, count: int = 0, *, writer: str = "a", journal: str = "j", **others: Any) -> Frame:
    ranges = (RecordRange("orders", str(UUID(int=7)), 0, start, start + count - 1),) if count else ()
    return Frame(
        journal=journal,
        writer=writer,
        group="shipping",
        member=f"member of {writer}",
        start=start,
        **{"done": 0, "at": 0, "ranges": ranges, **others},
    )


def contents(*frames: Frame) -> JournalContents:
    found = replay(((number, encode(frame)) for number, frame in enumerate(frames)), PLACE)
    assert found is not None
    return found


def spans(found: JournalContents, taken: int) -> list[tuple[int, int]]:
    return [(range_.first, range_.last) for range_ in found.staged(taken)]


def test_nothing_is_no_journal() -> None:
    assert replay([], PLACE) is None


def test_staged_is_what_is_above_the_position() -> None:
    found = contents(frame(0, is_claim=True), frame(0, 10), frame(10, 5, done=3), frame(15, 1))
    assert (found.end, found.done, found.staged_records) == (16, 3, 13)
    assert spans(found, 0) == [(0, 9), (10, 14), (15, 15)]
    assert spans(found, 12) == [(12, 14), (15, 15)]
    assert spans(found, 16) == []


def test_a_trimmed_journal_begins_later() -> None:
    found = contents(frame(10, 5, done=10), frame(15, 5, done=10))
    assert (found.first, found.end) == (10, 20)


def test_frames_of_a_superseded_writer_are_void() -> None:
    """Its runner was fenced when the claim was written, and accepts nothing for them."""
    found = contents(
        frame(0, is_claim=True),
        frame(0, 10),
        frame(10, writer="b", is_claim=True),
        frame(10, 3),
        frame(10, 7, writer="b"),
    )
    assert (found.end, found.member) == (17, "member of b")
    assert spans(found, 10) == [(10, 16)]


def test_a_claim_is_repeated_if_something_was_written_before_it() -> None:
    found = contents(
        frame(0, is_claim=True),
        frame(0, 10),
        frame(0, writer="b", is_claim=True),
        frame(10, writer="b", is_claim=True),
        frame(10, 2, writer="b"),
    )
    assert (found.end, found.writer) == (12, "b")


def test_another_journal_begins_anew() -> None:
    found = contents(frame(0, 10), frame(0, journal="k", is_claim=True), frame(0, 4, journal="k"))
    assert (found.journal, found.first, found.end) == ("k", 0, 4)


def test_a_gap_is_damage() -> None:
    with pytest.raises(
        JournalDamaged, match=r"frame 1 \(it continues at position 12 instead of 10, so frames are missing\)"
    ):
        contents(frame(0, 10), frame(12, 3))


def test_a_writer_that_has_not_claimed_the_journal_is_damage() -> None:
    """Its claim was deleted between two readings. It isn't superseded: what it has accepted is here."""
    with pytest.raises(JournalDamaged, match="hasn't claimed the journal, so frames are missing"):
        contents(frame(0, is_claim=True), frame(0, 10, writer="b"))


def test_a_frame_of_another_journal_is_damage() -> None:
    with pytest.raises(JournalDamaged, match="belongs to another journal"):
        contents(frame(0, 10), frame(10, 3, journal="k"))


def test_the_place_and_the_number_of_a_damaged_frame_are_named() -> None:
    with pytest.raises(
        JournalDamaged, match=r"the journal in topic journal is damaged at frame 4 \(its checksum is"
    ):
        replay([(4, encode(frame(0, 1))[:-1] + b"!")], PLACE)


def test_what_precedes_a_damaged_frame_is_known() -> None:
    frames = [encode(frame(0, 10)), encode(frame(10, 5)), b"something else", encode(frame(15, 5))]
    found, damage = replay_to_damage(enumerate(frames))
    assert found is not None
    assert spans(found, 0) == [(0, 14)] or spans(found, 0) == [(0, 9), (10, 14)]
    assert damage == "frame 2 (it isn't a frame of a journal)"
