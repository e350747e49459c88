"""Who is told of which failures."""

from __future__ import annotations

import gc

from kshare.errors import KshareError
from kshare.producer.failures import BatchFailure, Failures


class Caller:
    pass


def fail(failures: Failures, place: str, *callers: object, count: int = 1) -> BatchFailure:
    failure = BatchFailure(place, lambda: KshareError(place))
    failure.add_unseen(count)
    failures.add(failure, callers)
    return failure


def told(failures: Failures, caller: object) -> str | None:
    error = failures.tell(caller, failures.known_to(caller))
    return None if error is None else str(error)


def test_each_caller_is_told_of_its_own_records_once() -> None:
    failures, one, two, other = Failures(), Caller(), Caller(), Caller()
    fail(failures, "t[0]", one, two)
    assert [told(failures, caller) for caller in (one, two, other, one, two)] == [
        "t[0]",
        "t[0]",
        None,
        None,
        None,
    ]


def test_somebody_is_told_of_what_nobody_knows() -> None:
    failures, gone, other = Failures(), Caller(), Caller()
    fail(failures, "t[0]", gone)
    del gone
    gc.collect()
    assert [told(failures, other), told(failures, other)] == ["t[0]", None]


def test_those_who_wait_at_the_same_time_are_all_told() -> None:
    failures, one, two = Failures(), Caller(), Caller()
    known = failures.known_to(one), failures.known_to(two)
    fail(failures, "t[0]")
    assert failures.tell(one, known[0])
    assert failures.tell(two, known[1])


def test_note_counts_the_records_of_each_partition() -> None:
    failures = Failures()
    for number in range(7):
        fail(failures, f"t[{number}]", count=10 - number)
    error = failures.tell(None, 0)
    assert error is not None
    assert error.__notes__ == [
        "49 records weren't confirmed: 10 for t[0], 9 for t[1], 8 for t[2], 7 for t[3], 6 for t[4], and others for 2 "
        "more partitions"
    ]


def test_many_failures_are_joined_and_none_is_forgotten() -> None:
    failures, one = Failures(), Caller()
    all_of_them = [fail(failures, f"t[{number % 3}]", one) for number in range(20_000)]
    assert len(failures.kept) < 2000
    for failure in all_of_them[:-1]:
        failure.add_unseen(-1)
    assert told(failures, one) == "t[1]"
    all_of_them[-1].add_unseen(-1)
    assert failures.tell(one, 0) is None
