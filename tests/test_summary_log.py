"""When a summary log writes lines (at once, then summaries, then the rest at its end), and its memory limit."""

from __future__ import annotations

import logging

import pytest

from kshare.summary_log import INTERVAL_S, MAX_KEYS, LogLine, Summaries, SummaryKey, SummaryLog

ORDERS = SummaryKey(logging.WARNING, "lock expired", "orders[0]")
LOGGER = logging.getLogger("test")


def test_the_first_is_logged_at_once_and_the_rest_as_summaries() -> None:
    sums = Summaries()
    assert sums.add(0.0, ORDERS, 1, 7, 7) == LogLine(
        logging.WARNING,
        "1 record of orders[0] (offset 7): lock expired",
    )
    assert sums.add(1.0, ORDERS, 2, 12, 13) is None
    assert sums.add(2.0, ORDERS, 1500, 4, 2000) is None
    assert sums.due(INTERVAL_S - 0.1) == []
    (line,) = sums.due(INTERVAL_S)
    assert line == LogLine(logging.WARNING, "1,502 records of orders[0] (offsets 4 to 2000): lock expired")
    assert sums.due(INTERVAL_S * 2) == []


def test_the_next_line_of_a_kind_includes_what_was_counted() -> None:
    sums = Summaries()
    assert sums.add(0.0, ORDERS, 1) is not None
    assert sums.add(1.0, ORDERS, 2) is None
    assert sums.add(INTERVAL_S, ORDERS, 3) == LogLine(logging.WARNING, "5 records of orders[0]: lock expired")


def test_each_partition_and_cause_has_its_own_lines() -> None:
    sums = Summaries()
    for kind in (ORDERS, ORDERS._replace(place="orders[1]"), ORDERS._replace(cause="rejected")):
        assert sums.add(0.0, kind) is not None
        assert sums.add(0.0, kind) is None
    assert len(sums.rest(0.0)) == 3
    assert sums.rest(0.0) == []


def test_summaries_of_events_contain_the_latest_one() -> None:
    sums, kind = Summaries(), SummaryKey(logging.INFO, "a heartbeat failed")
    assert sums.add(0.0, kind, detail="one") == LogLine(logging.INFO, "a heartbeat failed: one")
    for detail in ("two", "three"):
        sums.add(1.0, kind, detail=detail)
    assert sums.rest(2.0) == [LogLine(logging.INFO, "a heartbeat failed (2 times, the latest): three")]


def test_memory_is_bounded_and_nothing_is_left_out() -> None:
    sums = Summaries()
    for number in range(3 * MAX_KEYS):
        sums.add(0.0, ORDERS._replace(place=f"orders[{number}]"), 2, 0, 1)
    assert len(sums) <= MAX_KEYS + 1
    (line,) = sums.rest(1.0)
    assert (
        line[1] == f"{4 * MAX_KEYS - 2:,} records of other partitions: too many different causes to log each"
    )
    sums.due(INTERVAL_S)
    sums.due(2 * INTERVAL_S)
    assert len(sums) == 0


def test_closing_logs_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    log = SummaryLog(LOGGER, "shippers", lambda: 0.0)
    for offset in range(100):
        log.records(logging.WARNING, "rejected", "orders", 3, 1, offset, offset)
    log.log_due()
    assert caplog.messages == ["group shippers: 1 record of orders[3] (offset 0): rejected"]
    log.close()
    assert caplog.messages[1:] == ["group shippers: 99 records of orders[3] (offsets 1 to 99): rejected"]
    log.close()
    assert len(caplog.messages) == 2


def test_events_below_the_log_level_are_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, LOGGER.name)
    log = SummaryLog(LOGGER)
    for _ in range(2):
        log.event(logging.INFO, "a heartbeat failed")
    caplog.set_level(logging.INFO, LOGGER.name)
    log.close()
    assert caplog.messages == []


def test_fields_are_attributes_of_log_records(caplog: pytest.LogCaptureFixture) -> None:
    log = SummaryLog(LOGGER, clock=lambda: 0.0, fields={"group": "shippers"})
    for offset in range(3):
        log.event(logging.WARNING, "rejected", fields={"offset": offset})
    log.close()
    assert [(vars(record)["group"], vars(record)["offset"]) for record in caplog.records] == [
        ("shippers", 0),
        ("shippers", 2),
    ]


def test_lines_have_no_control_characters_and_can_be_encoded(caplog: pytest.LogCaptureFixture) -> None:
    log = SummaryLog(LOGGER)
    log.records(logging.WARNING, "failed with \x1b[31mOdd", "or\nders", 0, 1, detail="\ud800")
    assert caplog.messages == [r"1 record of or\nders[0]: failed with \x1b[31mOdd: \ud800"]
