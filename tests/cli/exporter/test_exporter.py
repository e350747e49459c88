"""`kshare exporter` in a process of its own: it says where it listens, serves, and ends at a signal."""

from __future__ import annotations

import json
import signal
import socket
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from kshare import sync
from kshare.testing import Broker
from tests.cli.exporting import exporter, metrics
from tests.cli.running import DEADLINE, Kshare, assert_refused
from tests.exporter.running_exporter import labels

LIMIT = 100


@pytest.mark.lengthy
def test_a_pinned_window_is_named_by_exporter_and_doctor_after_two_readings(
    kshare_broker: Broker, run: Kshare
) -> None:
    kshare_broker.create_topic("orders")
    kshare_broker.set_group_config(
        "g",
        {"share.auto.offset.reset": "earliest", "share.partition.max.record.locks": str(LIMIT)},
    )
    where = labels(group="g", topic="orders", partition="0")
    with (
        exporter(kshare_broker.bootstrap) as address,
        sync.ShareConsumer(
            kshare_broker.bootstrap, group="g", topics=["orders"], acknowledgement="explicit"
        ) as consumer,
    ):
        for _ in range(3 * LIMIT):
            kshare_broker.produce("orders", [b"x"])
        seen = 0
        for batch in consumer.batches():
            for record in batch:
                seen += 1
                if record.offset:
                    record.accept()
            if seen >= LIMIT:
                break
        consumer.commit()
        deadline, readings = time.monotonic() + DEADLINE, set()
        while True:
            found = metrics(address)
            readings |= {*found.get("kshare_exporter_last_success_timestamp_seconds", {}).values()}
            if found.get("kshare_group_pinned_windows") == {labels(group="g"): 1}:
                break
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert found["kshare_partition_window_full"][where] == 1
        assert found["kshare_partition_start_offset"][where] == 0
        assert found["kshare_group_window_use_ratio"][labels(group="g")] == 1
        said = run("doctor", "-b", kshare_broker.bootstrap, "--group", "g").out
        assert "orders[0]: in-flight window full: 100 of 100 offsets, from offset 0 on" in said
    assert len(readings) <= 3, "the one before, and two every five seconds"


@pytest.mark.lengthy
def test_options_and_the_end_at_ctrl_c(kshare_broker: Broker) -> None:
    kshare_broker.create_topic("orders")
    for group in ("a", "b"):
        kshare_broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})
        kshare_broker.produce("orders", [b"x"])
        with sync.ShareConsumer(kshare_broker.bootstrap, group=group, topics=["orders"]) as consumer:
            next(iter(consumer))
    words = ["--group", "a", "--no-partitions", "--interval", "1"]
    with exporter(kshare_broker.bootstrap, *words, how=signal.SIGINT) as address:
        deadline = time.monotonic() + DEADLINE
        while "kshare_group_lag_records" not in (found := metrics(address)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert {*found["kshare_group_lag_records"]} == {labels(group="a")}
        assert [name for name in found if name.startswith("kshare_partition")] == []
        with urlopen(f"{address}/groups", timeout=DEADLINE) as response:
            assert [group["group"] for group in json.load(response)["groups"]] == ["a"]


@pytest.mark.lengthy
def test_a_cluster_that_is_away_is_logged_once(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound but not listening, so that nothing else can use the port
        where = "{}:{}".format(*nobody.getsockname())
        properties = tmp_path / "client.properties"
        properties.write_text("request.timeout.ms=1000\n")
        words = ["--command-config", str(properties), "--interval", "1"]
        with exporter(where, *words, errors="the cluster can't be read: ") as address:
            deadline = time.monotonic() + DEADLINE
            while metrics(address)["kshare_exporter_failures_total"][labels()] < 2:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert metrics(address)["kshare_exporter_up"][labels()] == 0


def test_a_taken_port_is_reported_on_one_line(kshare_broker: Broker, run: Kshare) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = "{}:{}".format(*server.getsockname())
        done = run("exporter", "-b", kshare_broker.bootstrap, "--listen", where)
    assert_refused(done, 1, f"the HTTP endpoint can't listen on {where} ")
    assert "choose another address with --listen" in done.err


@pytest.mark.parametrize("address", ["", "9308", "host:port", "host:70000"])
def test_an_invalid_address_is_refused(run: Kshare, address: str) -> None:
    done = run("exporter", "-b", "localhost:9092", "--listen", address)
    assert_refused(done, 2, "--listen must be an address to listen on, such as ")
