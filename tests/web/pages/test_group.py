"""Which findings of the checks a group's page shows, and where."""

from __future__ import annotations

from kshare.doctor.check_result import ok, problem, unknown, warning
from kshare.web.pages.group import findings_of, todo_of

FINDINGS = [
    ok("group packers", "3 members"),
    unknown("group packers", "not checked"),
    warning("group packers", "it has no members"),
    problem("group packers", "in-flight window full", "kshare groups describe packers", place="orders[0]"),
    problem("group packers", "in-flight window full", place="orders[21]"),
    problem("group invoices", "in-flight window full", place="orders[1]"),
]


def test_partitions_that_are_not_on_the_page_are_not_forgotten() -> None:
    """A page shows a few partitions, and the one that stands still may be another."""
    found = findings_of(FINDINGS, "packers", {"orders[0]", "orders[1]"})
    assert [finding.place for finding in found] == ["", "orders[21]"]


def test_what_to_do_about_a_partition() -> None:
    assert todo_of(FINDINGS, "packers", "orders[0]") == ("kshare groups describe packers",)
    assert todo_of(FINDINGS, "packers", "orders[1]") == ()
