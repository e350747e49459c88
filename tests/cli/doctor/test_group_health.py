"""`kshare doctor` on the health of groups: full windows, growing lag, lost records; and one start offset everywhere."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kshare import sync
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DeleteRecordsRequest, DescribeConfigsRequest, FetchRequest
from kshare.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsTopic
from kshare.testing import Broker
from tests.cli.running import Kshare, kshare
from tests.helpers.plain_client import plain_client
from tests.helpers.rejecting import reject

GROUP = "shippers"
LIMIT = 100
"""The minimum that brokers allow."""


@pytest.fixture
def broker(kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Broker:
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", kshare_broker.bootstrap)
    kshare_broker.create_topic("orders")
    kshare_broker.set_group_config(
        GROUP, {"share.auto.offset.reset": "earliest", "share.partition.max.record.locks": str(LIMIT)}
    )
    return kshare_broker


def produce(broker: Broker, count: int, size: int = 10) -> None:
    """In batches of `size`: the window ends at a batch boundary."""
    for _ in range(0, count, size):
        broker.produce("orders", [b"x"] * size)


def settle(broker: Broker, *offsets: int, most: int, group: str = GROUP) -> None:
    """Accept these offsets of the first `most` records, and release the others."""
    with sync.ShareConsumer(
        broker.bootstrap, group=group, topics=["orders"], acknowledgement="explicit"
    ) as consumer:
        seen = 0
        for batch in consumer.batches():
            for record in batch:
                seen += 1
                if record.offset in offsets:
                    record.accept()
            if seen >= most:
                break
        consumer.commit()


def remove(broker: Broker, before: int) -> None:
    """Delete records, as retention does."""
    host, _, port = broker.bootstrap.rpartition(":")
    topic = DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, before)])
    with plain_client((host, int(port))) as client:
        response = client.ask(DeleteRecordsRequest([topic], 10_000))
    assert response.topics[0].partitions[0].low_watermark == before


@contextmanager
def pinned(broker: Broker, releases: int = 0) -> Iterator[None]:
    """A member holds the first record, which it released so often before; all others in the window are accepted."""
    produce(broker, 3 * LIMIT)
    with sync.ShareConsumer(
        broker.bootstrap, group=GROUP, topics=["orders"], acknowledgement="explicit", client_id="truck-7"
    ) as consumer:
        seen = 0
        for batch in consumer.batches():
            for record in batch:
                seen += 1
                if record.offset:
                    record.accept()
                elif record.delivery_count <= releases:
                    record.release()
            if seen >= LIMIT + releases:
                break
        consumer.commit()
        yield


def health(run: Kshare, group: str = GROUP) -> list[dict[str, Any]]:
    """The findings about the group that aren't ok."""
    found = json.loads(run("doctor", "--group", group, "--json").out)
    return [finding for finding in found if finding["check"] == f"group {group}" and finding["level"] != "ok"]


@pytest.mark.lengthy
def test_healthy_group(broker: Broker, run: Kshare) -> None:
    produce(broker, 10)
    settle(broker, *range(10), most=10)
    out = run("doctor", "--group", GROUP).out
    assert f"ok       group {GROUP}: no configuration problems\n" in out
    assert f"ok       group {GROUP}: 0 members, 0 records to settle, no stalled partitions\n" in out


@pytest.mark.lengthy
def test_an_unknown_lag_is_not_zero(broker: Broker, run: Kshare) -> None:
    """A member holds all records, and brokers don't tell where the group has started."""
    broker.set_group_config(GROUP, {"share.auto.offset.reset": "by_duration:PT1H"})
    produce(broker, 5)
    with sync.ShareConsumer(
        broker.bootstrap, group=GROUP, topics=["orders"], acknowledgement="explicit"
    ) as consumer:
        next(iter(consumer.batches()))
        out = run("doctor", "--group", GROUP).out
        assert "to settle" not in out
        assert (
            "lag unknown: nothing was settled or released yet, and share.auto.offset.reset is by_dur" in out
        )
        top = json.loads(run("top", "--once", "--json", "--group", GROUP).out)
        assert top["groups"][0]["lag"] is None, top


@pytest.mark.lengthy
def test_groups_that_track_dead_letters_need_no_members(broker: Broker, run: Kshare) -> None:
    """They have some only during a redrive, and what they didn't redrive waits for the next."""
    group = "kshare-dlq-dlq.orders"
    broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    produce(broker, 10)
    settle(broker, 0, 1, most=10, group=group)
    assert not [finding for finding in health(run, group) if "no members" in finding["text"]]


def test_health_of_a_nonexistent_group_is_not_checked(broker: Broker, run: Kshare) -> None:
    assert (
        f"ok       group {GROUP}: health not checked: the group doesn't exist "
        "(it is created when its first consumer joins)\n"
    ) in run("doctor", "--group", GROUP).out


@pytest.mark.lengthy
def test_window_filled_behind_one_record(broker: Broker, run: Kshare) -> None:
    with pinned(broker, releases=2):
        (found,) = health(run)
        said = "orders[0]: in-flight window full: 100 of 100 offsets, from offset 0 on, which isn't settled"
        assert found["level"] == "problem"
        assert said in found["text"]
        assert "200 records behind it wait" in found["text"]
        assert "held by truck-7 (" in found["text"]
        assert any("share.partition.max.record.locks=200" in line for line in found["todo"])
        reason = "room for 100 more behind the 100 offsets in flight, rounded up"
        assert f"# until then, a larger window ({reason}):" in found["todo"]
        shown = run("groups", "describe", GROUP).out, run("top", "--once", "--interval", "0.1").out
        assert all(said in out for out in shown)
        state = run("state", GROUP).out
        assert said.partition(": ")[2] in state
        for out in (found["text"], *shown, state):
            assert "Offset 0 has been the first unsettled one for at least " in out
            assert ", was released 2 times and is held by truck-7 (" in out
        for out in (*shown, state):
            assert f"kshare doctor --group {GROUP} has more" in out
        (row,) = json.loads(run("top", "--once", "--interval", "0.1", "--json").out)["partitions"]
        assert (row["window"], row["window_limit"], row["is_window_full"]) == (100, 100, True)
        told = kshare("consume", "--group", GROUP, "--topic", "orders", "--timeout-ms", "3000").err
        assert said in told
        assert "201" not in told


@pytest.mark.lengthy
@pytest.mark.parametrize(("highest", "advised"), [("150", ["=150"]), ("100", [])])
def test_advised_limit_is_within_the_brokers_maximum(
    broker: Broker, run: Kshare, highest: str, advised: list[str]
) -> None:
    def bound(response: Any) -> None:
        for row in response.results[0].configs:
            if row.name == "group.share.max.partition.max.record.locks":
                row.value = highest

    broker.faults.add(DescribeConfigsRequest, times=None, change=bound)
    with pinned(broker):
        (found,) = health(run)
    locks = "share.partition.max.record.locks"
    assert [line.partition(locks)[2].split()[0] for line in found["todo"] if locks in line] == advised


@pytest.mark.lengthy
def test_window_with_space_is_not_full(broker: Broker, run: Kshare) -> None:
    produce(broker, LIMIT // 2)
    with sync.ShareConsumer(
        broker.bootstrap, group=GROUP, topics=["orders"], acknowledgement="explicit"
    ) as consumer:
        seen = 0
        for batch in consumer.batches():
            for record in list(batch)[0 if seen else 1 :]:
                record.accept()
            seen += len(batch)
            if seen == LIMIT // 2:
                break
        consumer.commit()
        assert health(run) == []
        (state,) = json.loads(run("state", GROUP, "--json").out)
        assert (state["window"]["span"], state["window"]["is_full"]) == (LIMIT // 2, False)


@pytest.mark.lengthy
def test_lag_without_members(broker: Broker, run: Kshare) -> None:
    produce(broker, 30)
    settle(broker, 0, most=10)
    (found,) = health(run)
    assert found["level"] == "warning"
    assert found["text"] == "it has no members, and 29 records of orders wait: start its consumers"


@pytest.mark.lengthy
def test_growing_lag_without_members(broker: Broker, run: Kshare) -> None:
    produce(broker, 30)
    settle(broker, 0, most=10)
    over = threading.Event()

    def write() -> None:
        while not over.wait(0.02):
            produce(broker, 10)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        (found,) = health(run)
    finally:
        over.set()
        writer.join()
    assert "it has no members" in found["text"]
    assert "(2 s before, it was" in found["text"]


@pytest.mark.lengthy
def test_records_deleted_by_retention(broker: Broker, run: Kshare) -> None:
    produce(broker, 60)
    settle(broker, *range(10), 12, most=60)
    remove(broker, before=50)
    said = "orders[0]: 39 records before offset 50 were removed from the topic"
    lost, unread = health(run)
    assert (lost["level"], unread["level"]) == ("problem", "warning")
    assert said in lost["text"]
    assert "10 records of orders wait" in unread["text"]
    assert starts(run) == {("describe", 50, 10), ("top", 50, 10), ("state", 50, 10)}
    assert said in run("groups", "describe", GROUP).out
    assert said in run("top", "--once", "--interval", "0.1").out
    assert said.partition(": ")[2] in run("state", GROUP).out


@pytest.mark.lengthy
def test_topic_emptied_by_retention(broker: Broker, run: Kshare) -> None:
    """`kshare consume` doesn't say that the topic has always been empty."""
    produce(broker, 60)
    settle(broker, *range(10), most=60)
    remove(broker, before=60)
    assert starts(run) == {("describe", 60, 0), ("top", 60, 0), ("state", 60, 0)}
    told = kshare("consume", "--group", GROUP, "--topic", "orders", "--timeout-ms", "3000").err
    assert "50 records before offset 60 were removed from the topic" in told
    assert "empty" not in told


@pytest.mark.lengthy
def test_all_commands_show_the_same_start_offset(broker: Broker, run: Kshare) -> None:
    """Brokers store a new start offset only with the next state update."""
    broker.produce("orders", [b"x"] * 10)
    with sync.ShareConsumer(
        broker.bootstrap, group=GROUP, topics=["orders"], acknowledgement="explicit"
    ) as consumer:
        for record in next(consumer.batches()):
            if record.offset in (0, 1, 2, 4):
                record.accept()
        consumer.commit()
        assert starts(run) == {("describe", 3, 6), ("top", 3, 6), ("state", 3, 6)}


@pytest.mark.lengthy
def test_member_that_holds_a_whole_window(broker: Broker, run: Kshare) -> None:
    """Brokers store no locks. That nothing gets settled shows it."""
    broker.set_group_config(GROUP, {"share.partition.max.record.locks": str(2000)})
    produce(broker, 5000, size=500)
    settle(broker, 0, most=1)
    with sync.ShareConsumer(
        broker.bootstrap, group=GROUP, topics=["orders"], acknowledgement="explicit", client_id="truck-7"
    ) as consumer:
        next(consumer.batches())
        deadline = time.monotonic() + 20
        while not (found := health(run)):
            assert time.monotonic() < deadline
    assert found[0]["level"] == "warning"
    assert "orders[0]: 4,999 records wait from offset 1 on" in found[0]["text"]
    assert "assigned to truck-7 (" in found[0]["text"]
    assert "up to 2,000: an in-flight window full of locks" in found[0]["text"]


@pytest.mark.lengthy
@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_new_group_that_holds_a_whole_window(broker: Broker, run: Kshare, reset: str) -> None:
    """Brokers haven't stored a start offset yet, so nobody knows the lag."""
    broker.set_group_config(GROUP, {"share.auto.offset.reset": reset})
    produce(broker, 10)
    with sync.ShareConsumer(
        broker.bootstrap, group=GROUP, topics=["orders"], acknowledgement="explicit", client_id="truck-7"
    ) as consumer:
        if reset == "latest":
            assert consumer.next_batch(2.0) is None
        produce(broker, 3 * LIMIT)
        next(consumer.batches())
        assert health(run) == []  # it may have been assigned them just now
        deadline = time.monotonic() + 20
        while not (found := health(run)):
            assert time.monotonic() < deadline
    (found_text,) = [finding["text"] for finding in found]
    first, waiting = (0, 310) if reset == "earliest" else (10, 300)
    assert (
        f"no record was ever settled or released, and {waiting} records wait from offset {first} on"
        in found_text
    )
    assert "up to 100: an in-flight window full of locks" in found_text


@pytest.mark.lengthy
def test_log_start_is_respected_when_the_state_topic_is_unreadable(broker: Broker, run: Kshare) -> None:
    produce(broker, 60)
    settle(broker, *range(10), most=60)
    remove(broker, before=50)

    def refuse(response: Any) -> None:
        for topic in response.responses:
            for row in topic.partitions:
                row.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    broker.faults.add(FetchRequest, times=None, change=refuse)
    assert starts(run, "describe", "top") == {("describe", 50, 10), ("top", 50, 10)}
    levels = {finding["level"] for finding in health(run)}
    assert levels == {"problem", "warning", "unknown"}


@pytest.mark.lengthy
@pytest.mark.parametrize("has_dead_letters", [False, True])
def test_records_archived_at_the_delivery_limit(broker: Broker, run: Kshare, has_dead_letters: bool) -> None:
    """No finding if the group has a dead-letter topic."""
    if has_dead_letters:
        broker.create_topic("dlq.orders", settings={"errors.deadletterqueue.group.enable": "true"})
        broker.set_group_config(GROUP, {"errors.deadletterqueue.topic.name": "dlq.orders"})
    broker.produce("orders", [b"x"] * 2)
    with sync.ShareConsumer(
        broker.bootstrap, group=GROUP, topics=["orders"], acknowledgement="explicit"
    ) as consumer:
        deliveries = {0: 0, 1: 0}
        for record in consumer:
            deliveries[record.offset] = record.delivery_count
            record.release() if record.offset == 0 or record.delivery_count < 4 else record.accept()
            if deliveries == {0: 5, 1: 4}:
                break
        consumer.commit()
    found = [finding["text"] for finding in health(run)]
    if has_dead_letters:
        assert found == []
    else:
        (said,) = found
        assert "orders[0]: 1 record was archived after 5 deliveries, and no dead-letter topic is set" in said


@pytest.mark.lengthy
def test_rejected_records_are_said(broker: Broker, run: Kshare) -> None:
    """Not a warning: members may have kept copies."""
    broker.produce("orders", [b"x"] * 6)
    reject(broker.bootstrap, GROUP, "orders", 6)
    assert health(run) == []
    said = f"ok       group {GROUP}: 6 records were rejected, and brokers kept no copies of them: no dead-letter topic"
    assert said in run("doctor", "--group", GROUP).out


@pytest.mark.lengthy
def test_rejected_records_do_not_sound_lost_if_members_keep_them(broker: Broker, run: Kshare) -> None:
    """As workers with `dead_letters` do: it said that brokers kept no copies."""
    broker.create_topic("orders-dead", 1, {"errors.deadletterqueue.group.enable": "true"})
    broker.produce("orders-dead", [b"x"], headers=[("__dlq.errors.group", GROUP.encode())])
    broker.produce("orders", [b"x"] * 6)
    reject(broker.bootstrap, GROUP, "orders", 6)
    out = run("doctor", "--group", GROUP).out
    assert (
        f"group {GROUP}: 6 records were rejected, and members write dead letters to topic orders-dead ("
        in out
    )
    assert "no copies" not in out


def starts(run: Kshare, *commands: str) -> set[tuple[str, int | None, int | None]]:
    """The start offset and lag of the only partition, as each command shows them."""
    asked = {
        "describe": lambda: json.loads(run("groups", "describe", GROUP, "--json").out)[0]["offsets"],
        "top": lambda: json.loads(run("top", "--once", "--interval", "0.1", "--json").out)["partitions"],
        "state": lambda: json.loads(run("state", GROUP, "--json").out),
    }
    found = set()
    for name in commands or asked:
        (row,) = asked[name]()
        found.add((name, row["start"] if name == "top" else row["start_offset"], row["lag"]))
    return found
