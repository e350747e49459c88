"""The judge of restless workers finds what it is to find."""

from __future__ import annotations

from tests.integration.restless_workers.judging import Judgement, Place
from tests.integration.worker_storm.diary import Entry, Event

ARCHIVED = "The delivery count limit was reached."
REJECTED = "Offset rejected by client."
NAMES = (
    "orders: given back after their last delivery; the broker archives them: 3 of orders[0] (offsets 4 to 6)"
)


def judged(
    *events: tuple[Event, int],
    letters: tuple[int, ...] = (),
    archived: dict[int, str] | None = None,
    log: str = "",
    left: int = 0,
    lowered: float = 0.0,
) -> dict[str, list[str]]:
    """Record 5 is at offset 5 of orders[0]. What is archived is so at second 100."""
    place: Place = ("orders", 0, 5)
    told = {("orders", 0, at): text for at, text in (archived or {}).items()}
    entries = [Entry(event, 0.0, number, 1, 1) for event, number in events]
    judgement = Judgement(
        {place: 5}, entries, letters, told, [log], left, dict.fromkeys(told, 100.0), [lowered]
    )
    return {kind: found for kind, found in judgement.problems.items() if found}


def test_what_ends_well_is_no_problem() -> None:
    tried = (Event.BEGAN, 5)
    assert judged(tried, (Event.SUCCEEDED, 5)) == {}
    assert judged(tried, (Event.BURIED, 5), archived={5: REJECTED}) == {}
    assert judged(tried, letters=(5,)) == {}
    assert judged(tried, archived={5: ARCHIVED}, log=NAMES) == {}


def test_a_lost_record_is_found() -> None:
    assert [*judged((Event.BEGAN, 5))] == ["lost"]
    assert [*judged(archived={5: REJECTED})] == ["lost"]


def test_an_archived_record_that_nobody_tried_is_found() -> None:
    assert [*judged(archived={5: ARCHIVED}, log=NAMES)] == ["archived untried"]


def test_an_archived_record_that_no_line_names_is_found() -> None:
    for log in ("", NAMES.replace("4 to 6", "6 to 9"), NAMES.replace("orders[0]", "orders[1]")):
        assert [*judged((Event.BEGAN, 5), archived={5: ARCHIVED}, log=log)] == ["archived without a word"]


def test_after_the_limit_was_lowered_any_line_may_name_what_is_archived() -> None:
    tried, line = (Event.BEGAN, 5), "records lost their locks: Delivery(orders[0]@5, attempt 1)"
    assert judged(tried, archived={5: ARCHIVED}, log=line, lowered=95.0) == {}
    for other, at in ((line, 60.0), (line, 101.0), (line.replace("@5", "@6"), 95.0)):
        assert [*judged(tried, archived={5: ARCHIVED}, log=other, lowered=at)] == ["archived without a word"]
    assert [*judged(archived={5: ARCHIVED}, log=line, lowered=95.0)] == ["archived untried"]


def test_a_dead_letter_that_nobody_tried_is_found() -> None:
    assert [*judged(letters=(5,))] == ["buried untried"]
    assert [*judged((Event.BURIED, 5))] == ["buried untried"]


def test_what_is_left_is_found() -> None:
    assert [*judged((Event.BEGAN, 5), (Event.SUCCEEDED, 5), left=1)] == ["left"]
