"""The screen of `kshare top` and its figures, without a cluster or terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kshare.admin.results import Member, PartitionProgress
from kshare.cli.top.screen_view import TopScreen
from kshare.monitor.figures import COLUMNS, Figures, TableView, figures
from kshare.monitor.snapshot import GroupReading, PartitionReading, Snapshot

NOW = 1_800_000_000.0


def partition(
    number: int = 0, lag: int | None = 5, end: int = 100, group: str = "g", redelivered: int | None = 2
) -> PartitionReading:
    return PartitionReading(group, "orders", number, 90, end, lag, redelivered, 3, NOW - 75)


def reading(*partitions: PartitionReading, at: float = 0.0, members: int = 1) -> Snapshot:
    names = dict.fromkeys(partition.group for partition in partitions)
    who = tuple(
        Member(f"id-{number}", "truck", "10.0.0.7", None, 3, ("orders",), (("orders", 0),))
        for number in range(members)
    )
    groups = (
        GroupReading(
            name, "Stable", who, tuple(partition for partition in partitions if partition.group == name)
        )
        for name in names
    )
    return Snapshot(NOW, at, tuple(groups))


def shown(board: TopScreen, found: Figures, width: int = 80, height: int = 24) -> list[str]:
    lines = ["".join(text for text, _ in line) for line in board.lines(found, width, height)]
    assert len(lines) == height
    assert max(map(len, lines)) <= width + 2
    return [line.rstrip() for line in lines]


# --- figures


def test_rates_come_from_two_readings() -> None:
    before, now = reading(partition(lag=10, end=100), at=10.0), reading(partition(lag=5, end=103), at=12.0)
    (row,) = figures(now, before).rows[TableView.PARTITIONS]
    assert (row["written_per_second"], row["settled_per_second"]) == (1.5, 4.0)
    (alone,) = figures(now, None).rows[TableView.PARTITIONS]
    assert (alone["written_per_second"], alone["settled_per_second"]) == (None, None)


def test_offset_reset_is_not_a_rate() -> None:
    before, now = reading(partition(lag=0), at=0.0), reading(partition(lag=50), at=1.0)
    assert figures(now, before).rows[TableView.PARTITIONS][0]["settled_per_second"] == 0.0


def test_group_figures_are_sums_over_partitions() -> None:
    (row,) = figures(reading(partition(0, 5), partition(1, 7, redelivered=None)), None).rows[TableView.GROUPS]
    assert (row["partitions"], row["lag"], row["redelivered"], row["most_deliveries"]) == (2, 12, 2, 3)
    assert row["oldest_seconds"] == 75


def test_unknown_figures_are_none() -> None:
    (row,) = figures(reading(partition(lag=None, redelivered=None)), None).rows[TableView.GROUPS]
    assert (row["lag"], row["redelivered"]) == (None, None)


def test_error_of_a_group_is_its_state() -> None:
    now = Snapshot(NOW, 0.0, (GroupReading("g", "Stable", problem="GROUP_AUTHORIZATION_FAILED"),))
    (row,) = figures(now, None).rows[TableView.GROUPS]
    assert (row["state"], row["lag"]) == ("GROUP_AUTHORIZATION_FAILED", None)


# --- the screen

MANY = figures(
    reading(*(partition(number, number, group=f"group-{number:02}") for number in range(40))), None
)


def test_columns_are_aligned_with_their_headings() -> None:
    found = figures(reading(partition()), None)
    lines = shown(TopScreen("localhost:9092", TableView.PARTITIONS, None, 2), found)
    assert "localhost:9092" in lines[0]
    assert "groups 1, members 1, lag 5" in lines[0]
    assert lines[1].split() == [
        "GROUP",
        "TOPIC",
        "P",
        "START",
        "vLAG",
        "REDELIV",
        "MAXDEL",
        "DONE/s",
        "IN/s",
        "OLDEST",
    ]
    assert lines[2].split() == ["g", "orders", "0", "90", "5", "2", "3", "-", "-", "1m15s"]
    for head, cell in (("LAG", "5"), ("OLDEST", "1m15s")):
        assert lines[1].index(head) + len(head) == lines[2].index(f" {cell}") + len(cell) + 1


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (40, 10), (20, 3), (80, 1)])
@pytest.mark.parametrize("view", TableView)
def test_screen_fits_every_window(view: TableView, width: int, height: int) -> None:
    board = TopScreen("localhost:9092", view, None, 2)
    for key in ("x", "?", "x", ">", "pagedown"):
        board.press(key)
        lines = board.lines(MANY, width, height)
        assert len(lines) == height


@pytest.mark.parametrize("view", TableView)
def test_columns_are_readable_at_80_columns(view: TableView) -> None:
    """Long names are truncated in favour of figures."""
    one = PartitionReading(
        "a-group-with-a-long-name" * 3, "a-topic" * 9, 0, 10**9, 10**9, 10**6, 9, 4, NOW - 9e5
    )
    lines = shown(TopScreen("localhost:9092", view, None, 2), figures(reading(one), None))
    assert max(map(len, lines)) <= 80
    for column in COLUMNS[view]:
        assert column.head in lines[1]
    if view is not TableView.MEMBERS:
        assert lines[2].endswith("10d10h")


def test_rows_are_sorted_by_the_chosen_column() -> None:
    board = TopScreen("here", TableView.GROUPS, None, 2)
    assert [row["lag"] for row in board.rows(MANY)][:3] == [39, 38, 37]
    board.press("r")
    assert [row["lag"] for row in board.rows(MANY)][:3] == [0, 1, 2]
    for _ in range(4):
        board.press("<")
    assert [row["group"] for row in board.rows(MANY)][:2] == ["group-00", "group-01"]
    assert "^GROUP" in shown(board, MANY)[1]


def test_unknown_values_are_sorted_last() -> None:
    found = figures(reading(partition(0, None), partition(1, 3), partition(2, 9)), None)
    board = TopScreen("here", TableView.PARTITIONS, "lag", 2)
    assert [row["lag"] for row in board.rows(found)] == [9, 3, None]
    board.press("r")
    assert [row["lag"] for row in board.rows(found)] == [3, 9, None]


def test_scrolling_stops_at_the_last_row() -> None:
    board = TopScreen("here", TableView.GROUPS, "group", 2)
    assert shown(board, MANY)[2].startswith("group-00")
    for _ in range(9):
        board.press("pagedown")
        shown(board, MANY)
    assert shown(board, MANY)[-2].startswith("group-39")
    board.press("up")
    assert shown(board, MANY)[-2].startswith("group-38")
    board.press("m")
    assert "MEMBER" in shown(board, MANY)[1]


def test_help_says_what_brokers_do_not_report() -> None:
    board = TopScreen("here", TableView.GROUPS, None, 2)
    board.press("?")
    text = " ".join(" ".join(shown(board, MANY)).split())
    assert "Brokers don't tell which records are locked, by which member, and since when" in text
    assert "LAG records that aren't settled yet" in text
    board.press("x")
    assert "LAG" in shown(board, MANY)[1]


@pytest.mark.parametrize("view", TableView)
def test_help_is_complete_at_80_by_24(view: TableView) -> None:
    board = TopScreen("here", view, None, 2)
    board.press("?")
    lines = shown(board, MANY)
    assert "  press any key to return" in lines
    for column in COLUMNS[view]:
        if column.about:
            assert any(line.split(maxsplit=1) == [column.head, column.about] for line in lines)


def with_window(
    one: PartitionReading, span: int, limit: int | None = None, removed: int = 0
) -> PartitionReading:
    assert one.start is not None
    end = one.start + span
    told = PartitionProgress(
        one.topic, one.partition, one.start, one.lag, 0, 0, one.end, removed, end, window_limit=limit
    )
    return replace(one, progress=told)


def test_full_window_without_progress_is_noted() -> None:
    full = with_window(partition(end=5000, lag=4000), 2379, limit=2000)
    said = "! g  orders[0]: in-flight window full: 2,379 of 2,000 offsets, from offset 90 on"
    for view in TableView:
        board = TopScreen("here", view, None, 2)
        found = figures(reading(full, at=2.0), reading(full, at=0.0))
        assert any(said in line for line in shown(board, found, width=200))
        assert max(len(line) for line in shown(board, found, width=80) if line.startswith("!")) <= 80
    (row,) = found.rows[TableView.PARTITIONS]
    assert (row["window"], row["window_limit"], row["is_window_full"]) == (2379, 2000, True)
    assert found.rows[TableView.GROUPS][0]["full_windows"] == 1


def test_full_window_with_progress_or_without_members_is_not_noted() -> None:
    full = with_window(partition(end=5000, lag=4000), 2379, limit=2000)
    moved = replace(full, start=80)
    assert figures(reading(full, at=2.0), reading(moved, at=0.0)).notes == ()
    assert figures(reading(full), None).notes == ()
    assert figures(reading(full, at=2.0, members=0), reading(full, at=0.0, members=0)).notes == ()


def test_records_removed_from_the_topic_are_noted() -> None:
    lost = with_window(partition(), 5, removed=40)
    (note,) = figures(reading(lost), None).notes
    assert "40 records before offset 0 were removed from the topic" in note


def test_errors_are_shown_on_the_screen() -> None:
    board = TopScreen("here", TableView.GROUPS, None, 2)
    first = board.lines(MANY, 80, 24, "can't reach localhost:9092")[0]
    assert "can't reach localhost:9092" in first[0][0]


def test_names_send_no_escape_sequences() -> None:
    found = figures(reading(partition(group="\x1b]0;title\x07")), None)
    assert "\x1b" not in "".join(shown(TopScreen("here", TableView.GROUPS, None, 2), found))


def test_invisible_signs_in_names_are_replaced() -> None:
    found = figures(reading(partition(group="a\u3164b\u200dc")), None)
    assert "a\ufffdb\ufffdc" in "".join(shown(TopScreen("here", TableView.GROUPS, None, 2), found))
