"""Since when share-partitions have had members, as readings tell."""

from __future__ import annotations

from kshare.admin.results import Member
from kshare.monitor.stalls import MembersSince


def member(*places: tuple[str, int]) -> Member:
    return Member("m", "c", "host", None, 1, ("orders",), places)


def test_from_the_first_reading_that_has_found_one() -> None:
    since = MembersSince()
    for now in (1.0, 2.0):
        since.look({"g": [member(("orders", 0))]}, now)
    assert since.of("g", "orders", 0) == 1.0
    assert since.of("g", "orders", 1) is None
    since.look({"other": []}, 3.0)
    assert since.of("g", "orders", 0) == 1.0
    since.look({"g": []}, 4.0)
    assert since.of("g", "orders", 0) is None


def test_groups_that_are_gone_are_forgotten() -> None:
    """One that is made again is another one; and there may be very many, one after the other."""
    since = MembersSince()
    since.look({"g": [member(("orders", 0))], "h": [member(("orders", 0))]}, 1.0)
    since.keep({"h"})
    assert since.of("g", "orders", 0) is None
    assert since.of("h", "orders", 0) == 1.0
