"""`kshare lag` and an embedded cluster: totals, filters, unknown lag, errors, and watching."""

from __future__ import annotations

import json
import re
import signal
import time
from typing import Any

import pytest

from kshare import sync
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DescribeShareGroupOffsetsRequest, FetchRequest, ListGroupsRequest
from kshare.testing import Broker
from tests.cli.running import ROOT, Kshare, Piped, assert_refused
from tests.cli.terminals import Terminal

HEADS = ["GROUP", "STATE", "MEMBERS", "PARTITIONS", "LAG"]
BILLING = ["billing", "Empty", "0", "2", "10"]
SHIPPERS = ["shippers", "Empty", "0", "1", "6"]


@pytest.fixture
def broker(kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Broker:
    """10 orders and 3 parcels: shippers accepted 4 orders, billing 1 order and 2 parcels."""
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", kshare_broker.bootstrap)
    for topic, records in (("orders", 10), ("parcels", 3)):
        kshare_broker.create_topic(topic, 1)
        kshare_broker.produce(topic, [b"x"] * records)
    for group in ("shippers", "billing"):
        kshare_broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    accept(kshare_broker, "shippers", "orders", 4)
    accept(kshare_broker, "billing", "orders", 1)
    accept(kshare_broker, "billing", "parcels", 2)
    return kshare_broker


def accept(broker: Broker, group: str, topic: str, count: int) -> None:
    """The first `count` records; the others are released when the consumer closes."""
    with sync.ShareConsumer(
        broker.bootstrap, group=group, topics=[topic], acknowledgement="explicit"
    ) as consumer:
        for number, record in enumerate(consumer, 1):
            record.accept()
            if number == count:
                break


def lag(run: Kshare, *words: str) -> Any:
    done = run("lag", "--json", *words)
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def table(run: Kshare, *words: str) -> list[list[str]]:
    done = run("lag", *words)
    assert (done.code, done.err) == (0, "")
    heads, *rows = [line.split() for line in done.out.splitlines()]
    assert heads == HEADS
    return rows


def test_one_row_per_group(broker: Broker, run: Kshare) -> None:
    assert table(run) == [BILLING, SHIPPERS]


def test_table_in_the_documentation_has_these_columns() -> None:
    shown = re.search(r"^\$ kshare lag\n(.*)$", (ROOT / "docs" / "cli.md").read_text(), re.MULTILINE)
    assert shown is not None
    assert shown[1].split() == HEADS


def test_groups_are_shown_in_the_given_order(broker: Broker, run: Kshare) -> None:
    assert table(run, "-g", "shippers", "--group", "billing", "-g", "shippers") == [SHIPPERS, BILLING]


def test_topic_filter(broker: Broker, run: Kshare) -> None:
    assert [(group["group"], group["lag"]) for group in lag(run, "--topic", "parcels")] == [("billing", 1)]
    assert [(group["group"], group["lag"]) for group in lag(run, "-t", "orders:0", "-t", "parcels")] == [
        ("billing", 10),
        ("shippers", 6),
    ]


def test_a_named_group_that_does_not_read_the_topic_has_no_known_lag(broker: Broker, run: Kshare) -> None:
    assert table(run, "-g", "shippers", "-t", "parcels") == [["shippers", "Empty", "0", "0", "-"]]


def test_json_has_every_partition(broker: Broker, run: Kshare) -> None:
    assert lag(run, "-g", "shippers") == [
        {
            "group": "shippers",
            "state": "Empty",
            "members": 0,
            "lag": 6,
            "partitions": [
                {"topic": "orders", "partition": 0, "start_offset": 4, "end_offset": 10, "lag": 6}
            ],
        }
    ]


def test_an_empty_partition_does_not_make_the_lag_unknown(broker: Broker, run: Kshare) -> None:
    broker.create_topic("returns", 2)
    broker.produce("returns", [b"x"] * 5, partition=1)
    accept(broker, "shippers", "returns", 2)
    (found,) = lag(run, "-g", "shippers", "-t", "returns")
    assert [(partition["start_offset"], partition["lag"]) for partition in found["partitions"]] == [
        (None, 0),
        (2, 3),
    ]
    assert found["lag"] == 3


def test_unknown_lag_is_shown_as_a_dash(broker: Broker, run: Kshare) -> None:
    """As on Kafka 4.1, whose coordinator returns no lag, for a user who may not read the state topic."""

    def without_lag_of_parcels(response: Any) -> None:
        for topic in response.groups[0].topics:
            for row in topic.partitions:
                row.lag = -1 if topic.topic_name == "parcels" else row.lag

    def refuse(response: Any) -> None:
        for topic in response.responses:
            for row in topic.partitions:
                row.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    broker.faults.add(DescribeShareGroupOffsetsRequest, times=None, change=without_lag_of_parcels)
    broker.faults.add(FetchRequest, times=None, change=refuse)
    assert table(run) == [[*BILLING[:-1], "-"], SHIPPERS]
    found = lag(run, "-g", "billing")[0]
    assert found["lag"] is None
    assert [partition["lag"] for partition in found["partitions"]] == [9, None]


@pytest.mark.lengthy
def test_nonexistent_group_or_topic_is_an_error(broker: Broker, run: Kshare) -> None:
    assert_refused(run("lag", "-g", "shippers", "-g", "nobody"), 1, "no group 'nobody'\n")
    assert_refused(run("lag", "-g", "shipers"), 1, "no group 'shipers'; did you mean 'shippers'?\n")
    assert_refused(run("lag", "-t", "xyzzy"), 1, "there is no topic xyzzy\n")
    assert_refused(run("lag", "-t", "order"), 1, "there is no topic order; did you mean 'orders")
    assert_refused(
        run("lag", "-t", "orders:0,7"), 1, "topic orders has no partition 7 (it has 1 partition)\n"
    )


def test_group_deleted_after_listing_is_omitted(broker: Broker, run: Kshare) -> None:
    def add_deleted(response: Any) -> None:
        gone = type(response.groups[0])("gone", "", "Empty", "share")
        response.groups.append(gone)

    broker.faults.add(ListGroupsRequest, times=None, change=add_deleted)
    assert table(run) == [BILLING, SHIPPERS]


def test_no_matching_groups(kshare_broker: Broker, run: Kshare) -> None:
    kshare_broker.create_topic("orders", 1)
    where = ("-b", kshare_broker.bootstrap)
    assert run("lag", *where).out == "no share groups\n"
    assert run("lag", "-t", "orders", *where).out == "no share group reads these topics\n"
    assert lag(run, *where) == []


@pytest.mark.lengthy
def test_wrong_usage_is_refused(broker: Broker, run: Kshare) -> None:
    for words in (["--watch", "soon"], ["--watch", "0"], ["-t", "orders:x"]):
        assert_refused(run("lag", *words), 2, words[0] if words[0] != "-t" else "--topic")


@pytest.mark.lengthy
def test_watch_prints_a_table_each_time_in_a_pipe(broker: Broker) -> None:
    with Piped("lag", "--watch", "0.1", "-g", "shippers") as reader:
        assert [reader.line().split() for _ in range(3)] == [
            [head.encode() for head in HEADS],
            [cell.encode() for cell in SHIPPERS],
            [],
        ]
        accept(broker, "shippers", "orders", 6)
        while reader.line().split()[-1:] != [b"0"]:
            pass
        reader.close()
        assert reader.end() == (141, b"")


@pytest.mark.lengthy
def test_watch_with_json_prints_a_line_each_time(broker: Broker) -> None:
    with Piped("lag", "--json", "--watch") as reader:  # without seconds, as the last argument
        for _ in range(2):
            assert [load["lag"] for load in json.loads(reader.line())] == [10, 6]
        reader.close()
        assert reader.end() == (141, b"")


@pytest.mark.lengthy
def test_watch_redraws_the_terminal_until_ctrl_c(broker: Broker) -> None:
    with Terminal("lag", "--watch", "-g", "shippers") as terminal:  # followed by another option
        terminal.until("1    6")
        accept(broker, "shippers", "orders", 6)
        terminal.until("1    0")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
        assert "Traceback" not in terminal.text


@pytest.mark.lengthy
def test_repeated_ctrl_c_does_not_change_the_exit_code(broker: Broker) -> None:
    for _ in range(3):
        with Terminal("lag", "--watch", "-g", "shippers") as terminal:
            terminal.until("1    6")
            while terminal.process.poll() is None:
                terminal.process.send_signal(signal.SIGINT)
                time.sleep(0.002)
            assert terminal.end() == 130
            assert "Traceback" not in terminal.text
