"""A consumer's telemetry with the embedded broker, and with its faults: on asyncio and trio."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

from kshare import ShareConsumer
from kshare.broker.client_metrics import ClientPush
from kshare.protocol.compression import Compression
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    ApiVersionsRequest,
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
)
from kshare.testing import Broker

pytestmark = pytest.mark.anyio

DEADLINE_S = 30.0
RECORDS = 60
CONSUMED = "org.apache.kafka.consumer.share.fetch.manager.records.consumed.total"
REBALANCES = "org.apache.kafka.consumer.share.coordinator.rebalance.total"
APIS = (GetTelemetrySubscriptionsRequest, PushTelemetryRequest)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as broker:
        broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
        broker.produce("orders", [b"%d" % number for number in range(RECORDS)])
        yield broker


@pytest.fixture
def pushes(broker: Broker) -> list[ClientPush]:
    """Everything that the broker takes, and metrics are requested from all clients every 100 ms."""
    broker.subscribe_client_metrics("all", {"metrics": "*", "interval.ms": "100"})
    return watched(broker)


def watched(broker: Broker) -> list[ClientPush]:
    taken: list[ClientPush] = []
    broker.state.client_metrics.on_push = taken.append
    return taken


def requests(broker: Broker) -> Counter[str]:
    counted = broker.call(lambda: dict(broker.state.counters.requests))
    found: Counter[str] = Counter()
    for (api, _), count in counted.items():
        found[api] += count
    return found


async def until(is_so: Callable[[], object]) -> None:
    with anyio.fail_after(DEADLINE_S):
        while not is_so():
            await anyio.sleep(0.02)


async def consume_all(consumer: ShareConsumer[Any], records: int = RECORDS) -> None:
    seen = 0
    with anyio.fail_after(DEADLINE_S):
        async for _ in consumer:
            seen += 1
            if seen == records:
                break


def opened(broker: Broker, **options: Any) -> ShareConsumer[Any]:
    return ShareConsumer(broker.bootstrap, group="g", topics=["orders"], **options)


def values(push: ClientPush) -> dict[str, float]:
    (resource,) = push.resources
    return {metric.name: metric.points[0].value for metric in resource.metrics}


@pytest.mark.lengthy
async def test_metrics_are_pushed_and_the_last_push_is_terminating(
    broker: Broker, pushes: list[ClientPush]
) -> None:
    async with opened(broker, rack="r1", client_id="app") as consumer:
        await consume_all(consumer)
        await until(lambda: len(pushes) >= 3)
        member_id = consumer.member_id
    assert [each.is_terminating for each in pushes] == [False] * (len(pushes) - 1) + [True]
    assert len({each.instance_id for each in pushes}) == 1
    first = pushes[0]
    assert first.compression is Compression.ZSTD
    assert first.client[:2] == ("app", "kshare")
    (resource,) = first.resources
    assert dict(resource.attributes) == {
        "group_id": "g",
        "group_member_id": member_id,
        "client_rack": "r1",
    }
    assert sum(values(each)[CONSUMED] for each in pushes) == RECORDS  # the sum of all deltas
    assert values(pushes[-1])["org.apache.kafka.consumer.connection.count"] == 3


@pytest.mark.lengthy
async def test_an_empty_first_assignment_counts_as_in_java(broker: Broker, pushes: list[ClientPush]) -> None:
    """A group that is new gets partitions only after they are initialized."""
    broker.set_group_config(
        "g", {"share.auto.offset.reset": "earliest", "share.assignment.interval.ms": "1000"}
    )

    def counted() -> float:
        return sum(values(each)[REBALANCES] for each in pushes)

    for rebalances in (2, 1):
        pushes.clear()
        async with opened(broker):
            await until(lambda expected=rebalances: counted() >= expected)  # type: ignore[misc]
        assert counted() == rebalances


async def test_the_sync_consumers_loop_pushes_too(broker: Broker, pushes: list[ClientPush]) -> None:
    from kshare.sync import ShareConsumer as SyncConsumer

    def consume() -> None:
        with SyncConsumer(broker.bootstrap, group="g", topics=["orders"]) as consumer:
            for number, _ in enumerate(consumer, 1):
                if number == RECORDS:
                    break

    await anyio.to_thread.run_sync(consume)
    assert [each.is_terminating for each in pushes][-1:] == [True]


async def test_only_the_requested_metrics_are_pushed(broker: Broker) -> None:
    prefix = "org.apache.kafka.consumer.share.coordinator."
    broker.subscribe_client_metrics("some", {"metrics": prefix, "interval.ms": "100"})
    async with opened(broker):
        await until(broker.client_metrics)
    (push,) = broker.client_metrics()
    assert values(push)
    assert all(name.startswith(prefix) for name in values(push))


async def test_without_a_subscription_the_broker_is_asked_once_and_nothing_is_pushed(broker: Broker) -> None:
    async with opened(broker) as consumer:
        await consume_all(consumer)
        await until(lambda: requests(broker)["GetTelemetrySubscriptions"])
    assert requests(broker)["GetTelemetrySubscriptions"] == 1
    assert requests(broker)["PushTelemetry"] == 0


@pytest.mark.parametrize("option", [{"metrics_push": False}, {"enable.metrics.push": "false"}])
async def test_switched_off_it_sends_no_request(
    broker: Broker, pushes: list[ClientPush], option: dict[str, Any]
) -> None:
    async with opened(broker, **option) as consumer:
        await consume_all(consumer)
        await consumer.commit()
    assert not pushes
    assert requests(broker)["GetTelemetrySubscriptions"] == 0


async def test_a_broker_without_a_receiver_is_sent_nothing(
    broker: Broker, pushes: list[ClientPush], caplog: pytest.LogCaptureFixture
) -> None:
    def remove(response: Any) -> None:
        response.api_keys = [each for each in response.api_keys if each.api_key not in (71, 72)]

    broker.faults.add(ApiVersionsRequest, times=None, change=remove)
    with caplog.at_level(logging.INFO):
        async with opened(broker) as consumer:
            await consume_all(consumer)
            await consumer.commit()
    assert requests(broker)["GetTelemetrySubscriptions"] == 0
    assert "elemetry" not in caplog.text


@pytest.mark.lengthy
async def test_a_changed_subscription_is_followed(broker: Broker, pushes: list[ClientPush]) -> None:
    async with opened(broker) as consumer:
        await consume_all(consumer)
        await until(lambda: pushes)
        broker.subscribe_client_metrics("all", {"metrics": CONSUMED})
        await until(lambda: set(values(pushes[-1])) == {CONSUMED})
    # The push that was refused isn't lost: its counts are in the next.
    assert sum(values(each)[CONSUMED] for each in pushes) == RECORDS


@pytest.mark.lengthy
async def test_a_refused_push_is_counted_in_the_next(broker: Broker, pushes: list[ClientPush]) -> None:
    fault = broker.faults.add(PushTelemetryRequest, error=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    async with opened(broker) as consumer:
        await consume_all(consumer)
        await until(lambda: pushes)
    assert fault.hits == 1
    assert sum(values(each)[CONSUMED] for each in pushes) == RECORDS


@pytest.mark.lengthy
async def test_a_push_without_response_isnt_counted_again(broker: Broker, pushes: list[ClientPush]) -> None:
    """The broker has it. It is under way when the consumer is closed."""
    broker.faults.add(PushTelemetryRequest, mute=True, when=lambda request: not request.terminating)
    async with opened(broker) as consumer:
        await consume_all(consumer)
        await until(lambda: pushes)
    assert [each.is_terminating for each in pushes] == [False, True]
    assert sum(values(each)[CONSUMED] for each in pushes) == RECORDS


@pytest.mark.lengthy
async def test_after_an_unsupported_compression_pushes_arent_compressed(
    broker: Broker, pushes: list[ClientPush]
) -> None:
    def only_zstd(response: Any) -> None:
        response.accepted_compression_types = bytes([Compression.ZSTD])

    broker.faults.add(GetTelemetrySubscriptionsRequest, times=None, change=only_zstd)
    broker.faults.add(
        PushTelemetryRequest,
        times=None,
        when=lambda request: request.compression_type != 0,
        error=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    )
    async with opened(broker):
        await until(lambda: pushes)
    assert {each.compression for each in pushes} == {Compression.NONE}


@pytest.mark.lengthy
@pytest.mark.parametrize("codec", [Compression.LZ4, Compression.GZIP, Compression.SNAPPY])
async def test_the_brokers_order_of_compressions_is_followed(
    broker: Broker, pushes: list[ClientPush], codec: Compression
) -> None:
    def prefer(response: Any) -> None:
        response.accepted_compression_types = bytes([codec, Compression.ZSTD])

    broker.faults.add(GetTelemetrySubscriptionsRequest, times=None, change=prefer)
    async with opened(broker):
        await until(lambda: pushes)
    assert pushes[0].compression is codec
    assert values(pushes[0])


async def test_what_is_too_large_isnt_sent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kshare")
    with Broker(topics={"orders": 1}, settings={"telemetry.max.bytes": "100"}) as broker:
        broker.subscribe_client_metrics("all", {"metrics": "*", "interval.ms": "100"})
        async with opened(broker):
            await until(lambda: "more than the broker accepts" in caplog.text)
            broker.subscribe_client_metrics("all", {"metrics": "org.apache.kafka.app."})
            await until(lambda: requests(broker)["GetTelemetrySubscriptions"])
        assert requests(broker)["PushTelemetry"] == 0


def damage(response: Any) -> None:
    """Send bytes that aren't such a response."""
    damaged = {"__slots__": (), "append_to": lambda _, frame, version: frame.extend(b"\xff" * 3)}
    response.__class__ = type("Damaged", (type(response),), damaged)


def falsify(response: Any) -> None:
    if isinstance(response, GetTelemetrySubscriptionsResponse):
        response.accepted_compression_types = bytes([200, 99])
        response.push_interval_ms = response.telemetry_max_bytes = -(2**31)
        response.requested_metrics = ["\0", "*"]
    else:
        response.error_code = 32_000


FAULTS: dict[str, dict[str, Any]] = {
    "the connection is cut": {"hang_up": True},
    "the response is truncated": {"cut_after": 6},
    "there is no response": {"mute": True},
    "the request is swallowed": {"swallow": True},
    "an unexpected error": {"error": ErrorCode.UNKNOWN_SERVER_ERROR},
    "an error that ends telemetry": {"error": ErrorCode.INVALID_REQUEST},
    "a response that can't be decoded": {"change": damage},
    "a response that makes no sense": {"change": falsify},
}


@pytest.mark.lengthy
@pytest.mark.parametrize("api", APIS, ids=["subscription", "push"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_faults_of_telemetry_dont_disturb_consuming(
    broker: Broker,
    pushes: list[ClientPush],
    api: type[Any],
    fault: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    injected = broker.faults.add(api, times=None, **FAULTS[fault])
    async with opened(broker, request_timeout=5.0, acknowledgement="explicit") as consumer:
        await until(lambda: injected.hits)
        seen = 0
        with anyio.fail_after(DEADLINE_S):
            async for record in consumer:
                record.accept()
                seen += 1
                if seen == RECORDS:
                    break
            assert not any((await consumer.commit()).values())
        started = anyio.current_time()
    assert anyio.current_time() - started < 10.0  # a deadline, and not how long it should take
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.lengthy
async def test_a_broker_that_never_responses_a_push_doesnt_delay_heartbeats(
    broker: Broker, pushes: list[ClientPush]
) -> None:
    """A plugin of the broker may block. Brokers respond to one request of a connection after the other."""
    broker.faults.add(PushTelemetryRequest, times=None, before_ms=60_000)
    broker.set_group_config("g", {"share.heartbeat.interval.ms": "500"})
    async with opened(broker) as consumer:
        await until(lambda: requests(broker)["PushTelemetry"])
        before = requests(broker)["ShareGroupHeartbeat"]
        await until(lambda: requests(broker)["ShareGroupHeartbeat"] >= before + 3)
        await consume_all(consumer)


async def test_a_slow_subscription_delays_no_record_and_no_close(broker: Broker) -> None:
    """It is requested on telemetry's own connection, too."""
    waiting_ms = 60_000  # longer than the test may take
    broker.faults.add(GetTelemetrySubscriptionsRequest, times=None, before_ms=waiting_ms)
    async with opened(broker) as consumer:
        await until(lambda: requests(broker)["GetTelemetrySubscriptions"])
        await consume_all(consumer)


@pytest.mark.lengthy
async def test_closing_after_the_broker_is_gone_pushes_nothing(
    broker: Broker, pushes: list[ClientPush]
) -> None:
    async with opened(broker, close_timeout=1.0, request_timeout=1.0):
        await until(lambda: pushes)
        broker.stop_node(1)
    assert not any(each.is_terminating for each in pushes)


@pytest.mark.lengthy
async def test_metrics_contain_no_secrets_and_no_names_of_topics(pushes_of_alice: list[ClientPush]) -> None:
    text = repr(pushes_of_alice)
    assert pushes_of_alice
    for word in ("hush-hush", "alice", "orders"):
        assert word not in text


@pytest.fixture
async def pushes_of_alice() -> list[ClientPush]:
    with Broker(topics={"orders": 1}, users={"alice": "hush-hush"}) as broker:
        broker.subscribe_client_metrics("all", {"metrics": "*", "interval.ms": "100"})
        login = {"sasl_mechanism": "PLAIN", "username": "alice", "password": "hush-hush"}
        async with opened(broker, **login):
            await until(broker.client_metrics)
        return broker.client_metrics()
