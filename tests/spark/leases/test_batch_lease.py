"""Leases: acquired for a `with` block, read any number of times, accepted or released at the end of the block."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import cast

import pytest
from pyspark.sql import SparkSession

from kshare.broker.faults import Fault
from kshare.errors import ConfigError
from kshare.protocol.messages import ShareAcknowledgeRequest
from kshare.spark import BatchLease, LeaseEnded, LeaseLostError, lease
from kshare.spark.backlog import BacklogReader
from kshare.spark.executor.connections import close_connections
from kshare.spark.existence import UnknownTopic
from kshare.spark.leases import batch_lease
from kshare.spark.leases.lease_token import LeaseReader, LeaseToken
from kshare.spark.options import ReadOptions
from kshare.testing import Broker

NO_SPARK = cast(SparkSession, None)
"""Only `dataframe` needs Spark."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as one:
        yield one
        close_connections()


@pytest.fixture(autouse=True)
def short_lull(monkeypatch: pytest.MonkeyPatch) -> None:
    """An embedded broker responds at once, so a short wait is enough to see that there are no more records."""
    monkeypatch.setattr(batch_lease, "_LULL_S", 0.2)


def options(broker: Broker, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap, "group": f"of-{topic}", "subscribe": topic}


def fill(broker: Broker, topic: str, records: int = 10, lock_ms: int = 30_000, partitions: int = 1) -> None:
    broker.create_topic(topic, partitions)
    broker.set_group_config(
        f"of-{topic}",
        {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": str(lock_ms)},
    )
    for partition in range(partitions):
        broker.produce(topic, [b"%d" % number for number in range(records)], partition=partition)


def leased(broker: Broker, topic: str, max_records: int = 1000) -> BatchLease:
    return lease(NO_SPARK, options(broker, topic), max_records=max_records, max_wait=20)


def lease_reader(token: str) -> LeaseReader:
    content = LeaseToken.decode(token)
    return LeaseReader(content, content.options({}))


def offsets(token: str) -> list[tuple[int, int]]:
    reader = lease_reader(token)
    return [
        (row["partition"], row["offset"])
        for task in reader.partitions()
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]


def backlog(broker: Broker, topic: str) -> list[int]:
    reader = BacklogReader(ReadOptions.parse(options(broker, topic), is_streaming=False))
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    return [row["offset"] for batch in batches for row in batch.to_pylist()]


@pytest.mark.lengthy
def test_records_are_read_repeatedly_and_accepted_at_the_end(broker: Broker) -> None:
    fill(broker, "clean", partitions=2)
    with leased(broker, "clean") as held:
        assert held.count == 20
        expected = [(partition, offset) for partition in (0, 1) for offset in range(10)]
        assert offsets(held.token) == expected
        assert offsets(held.token) == expected
        broker.produce("clean", [b"later"])
    with leased(broker, "clean") as rest:
        # Its delivery count isn't checked: a fetch that was still parked may have acquired and released it.
        assert [(range_.first, range_.last) for range_ in rest.ranges] == [(10, 10)]
    assert backlog(broker, "clean") == []


@pytest.mark.lengthy
def test_an_error_in_the_block_releases_them(broker: Broker) -> None:
    fill(broker, "error")
    with pytest.raises(ZeroDivisionError), leased(broker, "error"):
        raise ZeroDivisionError
    assert backlog(broker, "error") == list(range(10))
    with leased(broker, "error") as held:
        assert {range_.delivery_count for range_ in held.ranges} == {2}


def test_max_records_limits_a_lease(broker: Broker) -> None:
    broker.create_topic("some", 1)
    broker.set_group_config("of-some", {"share.auto.offset.reset": "earliest"})
    for _ in range(50):
        broker.produce("some", [b"one"])
    with leased(broker, "some", max_records=20) as held:
        assert 20 <= held.count < 50
    assert len(backlog(broker, "some")) == 50 - held.count


@pytest.mark.lengthy
def test_a_lease_on_an_empty_topic_is_empty(broker: Broker) -> None:
    broker.create_topic("empty", 1)
    with lease(NO_SPARK, options(broker, "empty"), max_wait=0.1) as held:
        assert held.count == 0
        assert offsets(held.token) == []


@pytest.mark.lengthy
def test_a_lease_is_renewed_until_it_ends(broker: Broker) -> None:
    fill(broker, "long", lock_ms=1000)
    renewals = broker.faults.add(
        ShareAcknowledgeRequest, times=None, when=lambda request: request.is_renew_ack
    )
    with leased(broker, "long") as held:
        deadline = time.monotonic() + 60
        while renewals.hits < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(offsets(held.token)) == 10
    renewals.stop()
    assert renewals.hits >= 3
    assert backlog(broker, "long") == []


@pytest.mark.lengthy
def test_a_lease_cannot_be_read_after_its_end(broker: Broker) -> None:
    fill(broker, "ended")
    with leased(broker, "ended") as held:
        token = held.token
        reader = lease_reader(token)
        (task,) = reader.partitions()
    with pytest.raises(LeaseEnded, match="within its `with` block"):
        held.dataframe()
    with pytest.raises(LeaseEnded, match="of group of-ended has ended"):
        reader.read(task)
    with pytest.raises(LeaseEnded, match="of group of-ended has ended"):
        lease_reader(token).partitions()


@pytest.mark.lengthy
def test_lost_locks_raise(broker: Broker) -> None:
    fill(broker, "lost")

    def work() -> None:
        with leased(broker, "lost") as held:
            broker.hang_up()
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not held._lost:
                time.sleep(0.01)
            with pytest.raises(LeaseLostError):
                held.dataframe()

    with pytest.raises(LeaseLostError, match="10 of 10 leased records are lost"):
        work()
    assert backlog(broker, "lost") == list(range(10))


@pytest.mark.lengthy
@pytest.mark.parametrize("is_processed", [True, False])
def test_a_lost_response_leaves_it_open_what_was_accepted(broker: Broker, is_processed: bool) -> None:
    """The broker may have processed the acceptance, and the records may be redelivered or not."""
    topic = f"open-{is_processed}"
    fill(broker, topic)

    def work() -> None:
        with leased(broker, topic):
            added = broker.faults.add
            faults.append(
                added(ShareAcknowledgeRequest, times=None, cut_after=0)
                if is_processed
                else added(ShareAcknowledgeRequest, times=None, hang_up=True)
            )

    faults: list[Fault] = []
    with pytest.raises(LeaseLostError) as raised:
        work()
    faults[0].stop()
    assert "10 of 10 leased records may or may not have been accepted" in str(raised.value)
    assert "They will be redelivered" not in str(raised.value)
    assert backlog(broker, topic) == ([] if is_processed else list(range(10)))


@pytest.mark.lengthy
def test_tokens_contain_the_options_and_invalid_ones_are_refused(broker: Broker) -> None:
    fill(broker, "token", records=1)
    given = {**options(broker, "token"), "includeHeaders": "true"}
    with lease(NO_SPARK, given, max_wait=20) as held:
        content = LeaseToken.decode(held.token)
        assert content.options({"lease": held.token}).include_headers
        more = content.options({"lease": held.token, "deliverycount": "true", "INCLUDEHEADERS": "false"})
        assert (more.delivery_count, more.include_headers) == (True, False)
    for nonsense in ("", "nonsense", held._given["group"]):
        with pytest.raises(ConfigError, match="this is not the token of a lease"):
            LeaseToken.decode(nonsense)
    with pytest.raises(ConfigError, match="max_records must be a whole number from 1"):
        lease(NO_SPARK, given, max_records=0)
    with pytest.raises(ConfigError, match=r"max_records must be a whole number from 1 to .*, not 'many'"):
        lease(NO_SPARK, given, max_records=cast(int, "many"))


@pytest.mark.lengthy
def test_a_lease_that_the_locks_limit_says_so(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    broker.create_topic("narrow", 2)
    broker.set_group_config(
        "of-narrow", {"share.auto.offset.reset": "earliest", "share.partition.max.record.locks": "100"}
    )
    for partition in range(2):
        for _ in range(15):
            broker.produce("narrow", [b"one"] * 10, partition=partition)
    with leased(broker, "narrow", max_records=5_000) as held:
        assert held.count == 200
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "the lease has 200 of 5,000 records: group of-narrow locks at most 100 records of a partition at once, and 2 "
        "of 2 partitions have reached that. For more, run `kshare groups config set of-narrow "
        "share.partition.max.record.locks=4000` (the brokers' group.share.max.partition.max.record.locks allows up to "
        "4,000), use more partitions, or several leases one after the other"
    ]


def test_a_lease_of_an_unknown_topic_fails_at_once(broker: Broker) -> None:
    with pytest.raises(
        UnknownTopic, match=r"^topic nosuch does not exist: check the option subscribe, or create it first$"
    ):
        leased(broker, "nosuch").__enter__()
