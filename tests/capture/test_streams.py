"""TCP streams reassembled from segments: reordered, repeated, truncated, lost, and with wrapping sequence numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.capture.segments import ACK, RST, SYN, Segment
from tests.capture.talk import Talk, arbitrary, told

WHOLE = ["1.client question", "1.server the response", "1.client thanks", "1 closed"]
NEAR_THE_END = 2**32 - 10


def whole_talk(first: tuple[int, int] = (1000, 5000)) -> Talk:
    talk = Talk(first).open()
    return talk.say(0, b"question").say(1, b"the response").say(0, b"thanks").close()


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
def test_reordered_and_repeated_segments(order: list[int], again: list[int], first: int) -> None:
    """Reordering the two directions relative to each other changes nothing, either."""
    segments = whole_talk((first, first)).segments
    doubled = [*order, *(number for number in again if number >= 3)]
    assert told(segments[:3] + [segments[number] for number in doubled]) == WHOLE


@pytest.mark.lengthy
@given(st.data())
def test_retransmissions_with_other_boundaries(data: st.DataObject) -> None:
    """Retransmitted segments are larger or smaller, and overlap."""
    text = bytes(range(65, 91))
    whole = Talk((NEAR_THE_END, 7)).open()
    begin = whole.next[0]
    pieces = [Talk((NEAR_THE_END, 7)).open().say(0, text).segments[3:]]
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        size = data.draw(st.integers(1, len(text) - at))
        again = Talk((begin + at, whole.next[1])).say(0, text[at : at + size], size)
        pieces.append(again.segments)
    mixed = data.draw(st.permutations([segment for piece in pieces for segment in piece]))
    assert told(whole.segments + mixed) == [f"1.client {text.decode()}", "1 closed"]


def test_unacknowledged_gap_is_waited_for() -> None:
    talk = Talk().open()
    talk.say(0, b"lost")
    lost = talk.segments.pop()
    talk.say(0, b"more" * 100)
    late = [lost]
    assert told(talk.segments + late) == ["1.client lost" + "more" * 100, "1 closed"]


def test_acknowledged_gap_is_given_up_soon() -> None:
    talk = Talk().open().say(0, b"one.").say(0, b"lost")
    talk.segments.pop()
    talk.say(0, b"two.").acknowledge(1)
    assert told(talk.segments[:-1])[:2] == ["1.client one.", "1.client -4"]
    for _ in range(40):
        talk.acknowledge(1)
    talk.say(1, b"response")
    assert told(talk.segments) == [
        "1.client one.",
        "1.client -4",
        "1.client two.",
        "1.server response",
        "1 closed",
    ]


def test_each_late_packet_is_waited_for() -> None:
    """Also one long after the first, though its acknowledgement was captured before it."""
    talk = Talk().open()
    for _ in range(40):
        talk.say(0, b"ask.").acknowledge(1).say(1, b"tell").acknowledge(0)
    segments = list(talk.segments)
    for question in (3, 3 + 4 * 20):
        segments[question : question + 2] = reversed(segments[question : question + 2])
    assert told(segments) == told(talk.segments)


def test_missing_request_does_not_hold_back_its_response() -> None:
    talk = Talk().open().say(0, b"lost")
    talk.segments.pop()
    talk.say(1, b"response")
    for _ in range(40):
        talk.acknowledge(0)
    assert told(talk.segments) == ["1.client -4", "1.server response", "1 closed"]


def test_missing_request_is_reported_before_its_response_at_the_end_of_a_capture() -> None:
    talk = Talk().open().say(0, b"lost")
    talk.segments.pop()
    talk.say(1, b"response")
    assert told(talk.segments) == ["1.client -4", "1.server response", "1 closed"]


def test_memory_is_bounded_behind_a_gap() -> None:
    talk = Talk().open().say(0, b"lost")
    talk.segments.pop()
    talk.say(0, b"x" * 40_000, 400)
    events = told(talk.segments, most_held=10_000)
    assert events == ["1.client -4", "1.client " + "x" * 40_000, "1 closed"]


def test_truncated_packets_leave_gaps() -> None:
    talk = Talk().open().say(0, b"one.").say(0, b"longer", 6).say(0, b"two.")
    talk.segments[4] = talk.segments[4]._replace(payload=memoryview(b"lo"), missing=4)
    assert told(talk.segments) == ["1.client one.lo", "1.client -4", "1.client two.", "1 closed"]


def test_capture_that_starts_mid_connection() -> None:
    """The first captured packet is taken as the beginning."""
    for begin in range(3, 8):
        segments = whole_talk((NEAR_THE_END, NEAR_THE_END)).segments[begin:]
        said = "".join(WHOLE[:-1])
        for line in told(segments)[:-1]:
            assert line.partition(" ")[2] in said


def test_one_direction_only() -> None:
    segments = [segment for segment in whole_talk().segments if segment.source[1] == 9092]
    assert told(segments) == ["1.server the response", "1 closed"]


def test_reused_ports_are_a_new_connection() -> None:
    first, second = whole_talk((1000, 5000)), whole_talk((900_000, 700_000))
    assert told(first.segments + second.segments) == WHOLE + [line.replace("1", "2", 1) for line in WHOLE]
    unfinished = first.segments[:5]
    assert told(unfinished + second.segments) == [
        WHOLE[0], "1 closed", *[line.replace("1", "2", 1) for line in WHOLE],
    ]  # fmt: skip


def test_late_copies_of_a_closed_connection_are_ignored() -> None:
    segments = whole_talk().segments
    assert told(segments + segments) == WHOLE


def test_a_reset_ends_both_directions() -> None:
    talk = Talk().open().say(0, b"question").say(1, b"ans")
    talk.segment(0, b"", ACK | RST)
    talk.say(1, b"never seen")
    assert told(talk.segments) == ["1.client question", "1.server ans", "1 closed"]


def test_keep_alives_are_ignored() -> None:
    talk = Talk().open().say(0, b"question")
    alive = talk.segments[-1]
    for payload in (b"", b"?"):
        talk.segments.append(alive._replace(sequence=talk.next[0] - 1, payload=memoryview(payload)))
    talk.say(1, b"response")
    assert told(talk.segments) == ["1.client question", "1.server response", "1 closed"]


def test_scans_and_bare_acknowledgements_are_not_connections() -> None:
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


@pytest.mark.lengthy
@given(st.lists(damaged, max_size=60))
def test_arbitrary_segments_are_handled(segments: list[Segment]) -> None:
    """Without exceptions and endless loops, and with no more bytes than were captured."""
    lines = told(segments, most_held=2000)
    shown = sum(len(line.partition(" ")[2]) for line in lines if "." in line and " -" not in line)
    assert shown <= sum(len(segment.payload) for segment in segments)
    opened = {line.split(".")[0].split()[0] for line in lines}
    assert sum("closed" in line for line in lines) == len(opened)
