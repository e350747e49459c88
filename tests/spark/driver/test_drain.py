"""What a drain says about records that the group hasn't delivered."""

from __future__ import annotations

import pytest

from kshare.errors import KshareError
from kshare.spark.driver.drain import report_rest, undelivered_ranges

ENDS = {("b", 0): 5, ("a", 1): 10, ("a", 0): 20}


def test_only_partitions_with_a_rest_are_named() -> None:
    assert undelivered_ranges(ENDS, {("a", 0): 3, ("a", 1): 10, ("b", 0): 0}) == [
        "a[0] from offset 3 to 19",
        "b[0] from offset 0 to 4",
    ]


def test_finished_partitions_have_none() -> None:
    assert undelivered_ranges(ENDS, {}) == []


@pytest.mark.parametrize("responds_early", [True, False])
def test_nothing_is_said_without_a_rest(responds_early: bool, caplog: pytest.LogCaptureFixture) -> None:
    report_rest("g", [], 50.0, responds_early=responds_early)
    assert caplog.messages == []


def test_the_warning_names_ten_partitions_and_quotes_the_group(caplog: pytest.LogCaptureFixture) -> None:
    report_rest("a b", [f"t[{number}]" for number in range(12)], 50.9, responds_early=False)
    (text,) = caplog.messages
    assert "t[9] and 2 other partitions. Nothing has arrived for 50 s" in text
    assert "`kshare groups describe 'a b'`" in text


def test_a_broker_that_responds_at_once_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(
        KshareError, match=r"group g hasn't delivered all records: t\[0\]\. .*stop all consumers"
    ):
        report_rest("g", ["t[0]"], 50.0, responds_early=True)
    assert caplog.messages == []
