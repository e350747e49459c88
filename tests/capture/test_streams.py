"""Segments in any order, twice, cut, lost, around the end of sequence numbers: the streams are what was said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.capture.segments import ACK, RST, SYN, Segment
from tests.capture.talk import Talk, arbitrary, told

WHOLE = ["1.client question", "1.server the answer", "1.client thanks", "1 closed"]
NEAR_THE_END = 2**32 - 10


def whole_talk(first: tuple[int, int] = (1000, 5000)) -> Talk:
    talk = Talk(first).open()
    return talk.say(0, b"question").say(1, b"the answer").say(0, b"thanks").close()


@pytest.mark.parametrize(
    "first", [(1000, 5000), (0, 0), (2**32 - 1, 2**32 - 1), (NEAR_THE_END, 2**31), (2**31 - 9, NEAR_THE_END)]
)
def test_a_whole_conversation(first: tuple[int, int]) -> None:
    assert told(whole_talk(first).segments) == WHOLE


@given(
    st.permutations(range(3, len(whole_talk().segments))),
    st.lists(st.integers(0, len(whole_talk().segments) - 1), max_size=8),
    st.sampled_from([1000, 2**32 - 1, NEAR_THE_END]),
)
def test_shuffled_and_doubled(order: list[int], again: list[int], first: int) -> None:
    """Even in the order of the two directions nothing changes."""
    segments = whole_talk((first, first)).segments
    doubled = [*order, *(one for one in again if one >= 3)]
    assert told(segments[:3] + [segments[one] for one in doubled]) == WHOLE


@given(st.data())
def test_sent_again_in_other_cuts(data: st.DataObject) -> None:
    """What was sent again comes in larger or smaller segments that overlap."""
    text = bytes(range(65, 91))
    whole = Talk((NEAR_THE_END, 7)).open()
    begin = whole.next[0]
    pieces = [Talk((NEAR_THE_END, 7)).open().say(0, text).segments[3:]]
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        size = data.draw(st.integers(1, len(text) - at))
        again = Talk((begin + at, whole.next[1])).say(0, text[at : at + size], size)
        pieces.append(again.segments)
    mixed = data.draw(st.permutations([one for piece in pieces for one in piece]))
    assert told(whole.segments + mixed) == [f"1.client {text.decode()}", "1 closed"]


def test_what_the_other_side_never_got_is_waited_for() -> None:
    talk = Talk().open()
    talk.say(0, b"lost")
    lost = talk.segments.pop()
    talk.say(0, b"more" * 100)
    late = [lost]
    assert told(talk.segments + late) == ["1.client lost" + "more" * 100, "1 closed"]


def test_what_the_capture_lacks_is_given_up_soon_after_it_was_acknowledged() -> None:
    talk = Talk().open().say(0, b"one.").say(0, b"lost")
    talk.segments.pop()
    talk.say(0, b"two.").acknowledge(1)
    assert told(talk.segments[:-1])[:2] == ["1.client one.", "1.client -4"]
    for _ in range(40):
        talk.acknowledge(1)
    talk.say(1, b"answer")
    assert told(talk.segments) == [
        "1.client one.",
        "1.client -4",
        "1.client two.",
        "1.server answer",
        "1 closed",
    ]


def test_each_packet_that_comes_late_is_waited_for_anew() -> None:
    """Long after the first one, whose acknowledgement was captured before it, too."""
    talk = Talk().open()
    for _ in range(40):
        talk.say(0, b"ask.").acknowledge(1).say(1, b"tell").acknowledge(0)
    segments = list(talk.segments)
    for question in (3, 3 + 4 * 20):
        segments[question : question + 2] = reversed(segments[question : question + 2])
    assert told(segments) == told(talk.segments)


def test_a_question_that_the_capture_lacks_does_not_hold_back_its_answer() -> None:
    talk = Talk().open().say(0, b"lost")
    talk.segments.pop()
    talk.say(1, b"answer")
    for _ in range(40):
        talk.acknowledge(0)
    assert told(talk.segments) == ["1.client -4", "1.server answer", "1 closed"]


def test_at_the_end_of_a_capture_a_missing_question_is_named_before_its_answer() -> None:
    talk = Talk().open().say(0, b"lost")
    talk.segments.pop()
    talk.say(1, b"answer")
    assert told(talk.segments) == ["1.client -4", "1.server answer", "1 closed"]


def test_memory_is_bounded_behind_a_gap() -> None:
    talk = Talk().open().say(0, b"lost")
    talk.segments.pop()
    talk.say(0, b"x" * 40_000, 400)
    events = told(talk.segments, most_held=10_000)
    assert events == ["1.client -4", "1.client " + "x" * 40_000, "1 closed"]


def test_packets_captured_in_part_lose_the_rest() -> None:
    talk = Talk().open().say(0, b"one.").say(0, b"longer", 6).say(0, b"two.")
    talk.segments[4] = talk.segments[4]._replace(payload=memoryview(b"lo"), missing=4)
    assert told(talk.segments) == ["1.client one.lo", "1.client -4", "1.client two.", "1 closed"]


def test_joined_in_the_middle() -> None:
    """The first packet that is there is the beginning."""
    for begin in range(3, 8):
        segments = whole_talk((NEAR_THE_END, NEAR_THE_END)).segments[begin:]
        said = "".join(WHOLE[:-1])
        for line in told(segments)[:-1]:
            assert line.partition(" ")[2] in said


def test_one_direction_alone() -> None:
    segments = [one for one in whole_talk().segments if one.source[1] == 9092]
    assert told(segments) == ["1.server the answer", "1 closed"]


def test_the_same_ports_again() -> None:
    first, second = whole_talk((1000, 5000)), whole_talk((900_000, 700_000))
    assert told(first.segments + second.segments) == WHOLE + [line.replace("1", "2", 1) for line in WHOLE]
    unfinished = first.segments[:5]
    assert told(unfinished + second.segments) == [
        WHOLE[0], "1 closed", *[line.replace("1", "2", 1) for line in WHOLE],
    ]  # fmt: skip


def test_late_copies_of_a_connection_that_is_over_are_nothing_new() -> None:
    segments = whole_talk().segments
    assert told(segments + segments) == WHOLE


def test_a_reset_ends_both_directions() -> None:
    talk = Talk().open().say(0, b"question").say(1, b"ans")
    talk.segment(0, b"", ACK | RST)
    talk.say(1, b"never seen")
    assert told(talk.segments) == ["1.client question", "1.server ans", "1 closed"]


def test_keep_alives_are_no_data() -> None:
    talk = Talk().open().say(0, b"question")
    alive = talk.segments[-1]
    for payload in (b"", b"?"):
        talk.segments.append(alive._replace(sequence=talk.next[0] - 1, payload=memoryview(payload)))
    talk.say(1, b"answer")
    assert told(talk.segments) == ["1.client question", "1.server answer", "1 closed"]


def test_scans_and_bare_acknowledgements_open_nothing() -> None:
    talk = Talk()
    talk.segment(0, b"", ACK)
    talk.segment(1, b"", RST | ACK)
    assert told(talk.segments) == []
    talk.segment(0, b"", SYN)
    assert told(talk.segments) == ["1 closed"]


numbers = st.one_of(st.integers(0, 2**32 - 1), st.integers(1000, 1050))
damaged = st.builds(
    arbitrary,
    st.integers(0, 1),
    numbers,
    numbers,
    st.integers(0, 31),
    st.text("abc", max_size=10),
    st.sampled_from([0, 0, 0, 5]),
)


@given(st.lists(damaged, max_size=60))
def test_arbitrary_segments_end_well(segments: list[Segment]) -> None:
    """No traceback, no endless loop, no more bytes than were captured."""
    lines = told(segments, most_held=2000)
    shown = sum(len(line.partition(" ")[2]) for line in lines if "." in line and " -" not in line)
    assert shown <= sum(len(one.payload) for one in segments)
    opened = {line.split(".")[0].split()[0] for line in lines}
    assert sum("closed" in line for line in lines) == len(opened)
