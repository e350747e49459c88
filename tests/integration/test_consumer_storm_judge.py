"""The judge of the storm of consumers, on histories that are written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.integration.consumer_storm.diary import Entry, Event
from tests.integration.consumer_storm.fault_book import Acknowledged, Acquired
from tests.integration.consumer_storm.judging import ACCEPT, GAP, REJECT, RELEASE, Judgement, Witness

ME, OTHER = "me", "other"
PLACE = (0, 7)
VALUE = "70"
LIMIT = 3


def acquired(at: float, delivery: int = 1, member: str = ME, fault: str | None = None) -> Acquired:
    return Acquired(at, at, member, *PLACE, PLACE[1], delivery, fault)


def asked(at: float, kind: int, member: str = ME, error: int | None = 0) -> Acknowledged:
    return Acknowledged(at, member, *PLACE, PLACE[1], (kind,), at + 0.1, error)


def entry(at: float, event: Event, delivery: int = 1, member: str = ME, text: str = "") -> Entry:
    is_about_none = event in (Event.COMMITS, Event.COMMITTED, Event.DID)
    partition, offset = (-1, -1) if is_about_none else PLACE
    return Entry(at, event, member, partition, offset, delivery, text)


def handed(at: float, delivery: int = 1, member: str = ME, text: str = VALUE) -> Entry:
    return entry(at, Event.HANDED, delivery, member, text)


def judge(
    entries: Sequence[Entry],
    acquired: Sequence[Acquired],
    acknowledged: Sequence[Acknowledged],
    *,
    dead: Mapping[tuple[int, int], str] | None = None,
    log: str = "",
    was_killed: bool = False,
    is_left: bool = False,
) -> Judgement:
    witness = Witness(entries, log, was_killed)
    judgement = Judgement({PLACE: VALUE}, [witness], acquired, acknowledged, limit=LIMIT)
    judgement.judge_ends({PLACE} if is_left else set(), dead)
    return judgement


def found(judgement: Judgement) -> set[str]:
    return {kind for kind, problems in judgement.problems.items() if problems}


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([handed(1), entry(2, Event.ENDED)], set()),
        ([handed(1), entry(2, Event.ACCEPTS)], set()),
        ([handed(1)], {"accepted unseen"}),
        ([], {"accepted unseen"}),
        ([handed(1, member=OTHER), entry(2, Event.ENDED, member=OTHER)], {"accepted unseen"}),
        ([handed(1), entry(2, Event.RELEASED)], {"accepted unseen"}),
        ([handed(1), entry(2, Event.RELEASED), entry(2.5, Event.ACCEPTS)], set()),
        ([entry(1, Event.UNREADABLE)], {"accepted unseen"}),
        ([handed(1), entry(4, Event.ENDED)], {"accepted unseen"}),  # after the request
        ([handed(1, text="71"), entry(2, Event.ENDED)], {"wrong contents"}),
    ],
)
def test_who_accepts_has_finished(entries: list[Entry], expected: set[str]) -> None:
    assert found(judge(entries, [acquired(0.5)], [asked(3, ACCEPT)])) == expected


def test_what_was_finished_before_counts_unless_it_was_handed_out_again() -> None:
    entries = [handed(1), entry(2, Event.ENDED)]
    deliveries = [acquired(0.5), acquired(2.2, 2)]
    assert found(judge(entries, deliveries, [asked(3, ACCEPT)])) == set()
    again = judge([*entries, handed(2.5, 2)], deliveries, [asked(3, ACCEPT)])
    assert found(again) == {"accepted unseen"}


def test_what_is_accepted_is_not_delivered_again() -> None:
    entries = [handed(1), entry(2, Event.ENDED)]
    after = [acquired(0.5), acquired(3.5, 2, OTHER)]
    assert found(judge(entries, after, [asked(3, ACCEPT)])) == {"delivered after accept"}
    assert found(judge(entries, after, [asked(3, ACCEPT, error=None)])) == set()
    refused = [asked(3, ACCEPT, error=121)]
    assert found(judge(entries, after, refused, is_left=True)) == {"left"}


def test_gaps_and_rejects() -> None:
    deliveries = [acquired(0.5)]
    assert found(judge([handed(1)], deliveries, [asked(3, GAP)])) == {"lost"}
    assert found(judge([handed(1)], deliveries, [asked(3, REJECT)])) == {"rejected unseen"}
    rejected = [handed(1), entry(2, Event.REJECTS)]
    assert found(judge(rejected, deliveries, [asked(3, REJECT)], dead={PLACE: "rejected"})) == set()
    assert found(judge(rejected, deliveries, [asked(3, REJECT)], dead={})) == {"lost"}


def test_confirmations() -> None:
    finished = [handed(1), entry(2, Event.ENDED)]
    told = [*finished, entry(4, Event.CONFIRMED, text="7")]
    deliveries = [acquired(0.5)]
    assert found(judge(told, deliveries, [asked(3, ACCEPT)])) == set()
    assert found(judge(told, deliveries, [replace(asked(3, ACCEPT), is_lost=True)])) == {"confirmed falsely"}
    refused = [asked(3, ACCEPT, error=121), asked(5, ACCEPT, OTHER)]
    others = [handed(4.5, member=OTHER), entry(4.6, Event.ENDED, member=OTHER)]
    assert found(judge([*told, *others], deliveries, refused)) == {"confirmed falsely"}
    committed = [*finished, entry(2.5, Event.COMMITS), entry(4, Event.COMMITTED)]
    assert found(judge(committed, deliveries, [asked(3, ACCEPT)])) == set()
    assert found(judge(committed, deliveries, [asked(4.5, ACCEPT)])) == {"confirmed falsely"}
    failed = [*finished, entry(2.5, Event.COMMITS), entry(4, Event.COMMITTED, text="0")]
    assert found(judge(failed, deliveries, [asked(4.5, ACCEPT)])) == set()
    again = [acquired(0.5), acquired(2.2, 2)]
    refused_then = [asked(2.1, ACCEPT, error=121), asked(2.4, REJECT)]
    rejected = [*finished, handed(2.25, 2), entry(2.3, Event.REJECTS, 2), *committed[2:]]
    assert found(judge(rejected, again, refused_then)) == set()
    released = [*finished, handed(2.25, 2), entry(2.3, Event.RELEASED, 2), *committed[2:]]
    assert "confirmed falsely" in found(judge(released, again, refused_then[:1]))
    too_late = [*finished, entry(2.1, Event.TOO_LATE), *committed[2:]]
    assert found(judge(too_late, deliveries, [asked(4.5, ACCEPT)])) == set()


NAMED = (
    "ERROR group g: 5 records of orders[0] (offsets 3 to 7): released without being handed out, at the delivery "
    "count limit\n"
)
LOST, CORRUPT = "lost response", "corrupt batch"


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("seen", "faults", "log", "was_killed", "expected", "counted"),
    [
        ((1, 2, 3), {}, "", False, set(), "archived: handed out as often as the limit"),
        ((1, 2), {}, "", False, {"archived unseen"}, None),
        ((1, 2), {}, NAMED, False, set(), "archived unseen, named in the log"),
        ((1, 2), {}, NAMED.replace("[0]", "[1]"), False, {"archived unseen"}, None),
        ((1, 2), {3: LOST}, "", False, set(), "archived unseen: a response lost, or a process killed"),
        ((1, 2), {3: CORRUPT}, "", False, {"archived unseen"}, None),
        ((1, 3), {2: CORRUPT}, "", False, {"archived unseen"}, None),
        ((1, 2), {}, "", True, set(), "archived unseen: a response lost, or a process killed"),
        (
            (2, 3),
            {},
            "",
            False,
            set(),
            "archived: handed out in the last deliveries, and not in all earlier ones",
        ),
        ((), {}, "", False, {"archived unseen"}, None),
    ],
)
def test_what_is_archived(
    seen: tuple[int, ...],
    faults: dict[int, str],
    log: str,
    was_killed: bool,
    expected: set[str],
    counted: str | None,
) -> None:
    deliveries = [acquired(float(number), number, fault=faults.get(number)) for number in (1, 2, 3)]
    entries = [handed(number + 0.1, number) for number in seen] or [handed(0.1)]
    releases = [asked(number + 0.2, RELEASE) for number in (1, 2, 3)]
    judgement = judge(entries, deliveries, releases, log=log, was_killed=was_killed)
    assert found(judgement) == expected
    assert counted is None or judgement.counts[counted] == 1


def test_a_member_that_was_killed_before_it_got_anything_is_known() -> None:
    deliveries = [acquired(1.0), acquired(2.0, 2), acquired(3.0, 3, member=OTHER, fault="late response")]
    entries = [handed(1.1), handed(2.1, 2), entry(2.9, Event.DID, member=OTHER, text="opened")]
    releases = [asked(1.2, RELEASE), asked(2.2, RELEASE)]
    killed = judge(entries, deliveries, releases, was_killed=True)
    assert found(killed) == set()
    assert found(judge(entries, deliveries, releases)) == {"archived unseen"}
    assert found(judge(entries[:2], deliveries, releases, was_killed=True)) == {"archived unseen"}


def test_what_ends_too_early_or_not_at_all() -> None:
    assert found(judge([handed(1)], [acquired(0.5)], [asked(3, RELEASE)])) == {"lost"}
    assert found(judge([handed(1)], [acquired(0.5)], [asked(3, RELEASE)], is_left=True)) == {"left"}


def test_what_comes_again_at_once() -> None:
    often = [acquired(1 + number * 0.05, number, fault=CORRUPT) for number in (1, 2, 3)]
    assert found(judge([handed(0.5)], often, [], is_left=True)) == {"left", "hot loop"}
    paused = [acquired(number * 0.5, number, fault=CORRUPT) for number in (1, 2, 3)]
    assert found(judge([handed(0.5)], paused, [], is_left=True)) == {"left"}
