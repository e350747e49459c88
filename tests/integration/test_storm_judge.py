"""The judge of the worker's storm: it finds what is lost, wrong, doubled and out of order."""

from __future__ import annotations

from tests.integration.worker_storm.diary import Entry, Event
from tests.integration.worker_storm.fates import Fate
from tests.integration.worker_storm.judging import ENDED_WITH_IT, Copy, Judgement, Witness


def ran(number: int, at: float, *, succeeded: bool = True, deliveries: int = 1) -> list[Entry]:
    entries = [Entry(Event.BEGAN, at, number, deliveries, deliveries)]
    return [*entries, Entry(Event.SUCCEEDED, at, number, deliveries, deliveries)] if succeeded else entries


def judged(*witnesses: Witness, fates: list[Fate] | None = None, dead: list[Copy] | None = None) -> Judgement:
    return Judgement(fates or [Fate.SUCCEEDS], [*witnesses], [], dead or [], lock_s=4.0, can_renew=True)


def test_a_record_that_ended_as_it_should() -> None:
    assert [*judged(Witness(ran(0, 1.0), was_killed=False)).problems()] == []


def test_a_lost_record() -> None:
    found = judged(Witness(ran(0, 1.0, succeeded=False), was_killed=False))
    assert [*found.problems()] == ["1 lost: 0 (succeeds; 1 runs, 0 successes, 0 dead letters)"]


def test_a_record_with_the_wrong_end() -> None:
    found = judged(Witness(ran(0, 1.0, succeeded=False), was_killed=False), dead=[Copy(0, 1.0, "not wanted")])
    assert found.wrong() == [0]
    given_up = judged(Witness([], was_killed=False), dead=[Copy(0, 1.0, f"8 {ENDED_WITH_IT}")])
    assert (given_up.wrong(), given_up.given_up()) == ([], [0])


def test_doubles_need_a_reason() -> None:
    again = Witness(ran(0, 9.0, deliveries=2), was_killed=False)
    assert judged(Witness(ran(0, 1.0), was_killed=False), again).doubles() == {"without a reason": [0]}
    killed = Witness([*ran(0, 1.0), *ran(5, 1.5, succeeded=False)], was_killed=True)
    assert judged(killed, again).doubles() == {"its process was killed": [0]}
    killed_later = Witness([*ran(0, 1.0), *ran(5, 5.0, succeeded=False)], was_killed=True)
    assert judged(killed_later, again).doubles() == {"without a reason": [0]}
    stalled = Witness([*ran(0, 1.0), Entry(Event.STALLED, 8.0, 6000, 0, 0)], was_killed=False)
    assert judged(stalled, again).doubles() == {"its process stalled, so its lock was lost": [0]}


def test_order_of_a_key() -> None:
    """Records 0, 485 and 970 have the same key."""
    fates = [Fate.SUCCEEDS] * 971
    in_order = Witness([*ran(0, 1.0), *ran(485, 2.0), *ran(970, 3.0)], was_killed=False)
    assert judged(in_order, fates=fates).disorder() == (3, 0, 0)
    wrong = Witness([*ran(0, 1.0), *ran(970, 2.0), *ran(485, 3.0)], was_killed=False)
    assert judged(wrong, fates=fates).disorder() == (3, 1, 0)
    redelivered = Witness([*ran(970, 2.0), *ran(485, 3.0, deliveries=2)], was_killed=False)
    assert judged(redelivered, fates=fates).disorder() == (1, 0, 0)
    one, other = Witness(ran(970, 1.0), was_killed=False), Witness(ran(485, 2.0), was_killed=False)
    assert judged(one, other, fates=fates).disorder() == (2, 0, 1)
