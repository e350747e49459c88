"""Client metrics subscriptions and pushes, as Kafka 4.4.0 answered the same requests (measured with a reporter)."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from kshare.broker import client_metrics
from kshare.broker.client_metrics import ClientIdentity, ClientMetrics, Subscription
from kshare.broker.configs import Configs
from kshare.broker.request_error import RequestError
from kshare.broker.settings import Resource
from kshare.errors import ConfigError
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.compression import Compression, compress
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    DescribeConfigsRequest,
    GetTelemetrySubscriptionsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    PushTelemetryRequest,
)
from kshare.protocol.messages.describe_configs_request import DescribeConfigsResource
from kshare.protocol.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource
from kshare.protocol.otlp import OtlpMetric, OtlpPoint, ResourceMetrics, encode_metrics
from kshare.testing import Broker

ID = b"i" * 16
CLIENT = ClientIdentity("app-1", "kshare", "1.0", "127.0.0.1", 5000)
PUSHED = ResourceMetrics((("group_id", "g"),), (OtlpMetric("requests", (OtlpPoint(1.0, 5),)),))
NOW = 1_000_000
SET, DELETE, APPEND = 0, 1, 2


@pytest.fixture
def configs() -> Configs:
    configs = Configs({"telemetry.max.bytes": "1000"})
    configs.replace(Resource.CLIENT_METRICS, "all", {"metrics": "a.,b.", "interval.ms": "1000"})
    return configs


@pytest.fixture
def clients(configs: Configs) -> ClientMetrics:
    return ClientMetrics(configs)


def push(subscription: Subscription, **changes: object) -> PushTelemetryRequest:
    request = PushTelemetryRequest(ID, subscription.id, metrics=encode_metrics([PUSHED]))
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def refusal(clients: ClientMetrics, request: PushTelemetryRequest, now: int) -> ErrorCode:
    with pytest.raises(RequestError) as caught:
        clients.push(request, CLIENT, now)
    return caught.value.code


def test_without_subscriptions_nothing_is_requested_every_five_minutes() -> None:
    found = ClientMetrics(Configs()).subscribe(ID, CLIENT, NOW)
    assert found.metrics == ()
    assert found.interval_ms == 300_000


def test_subscriptions_that_match_are_combined(configs: Configs, clients: ClientMetrics) -> None:
    configs.replace(Resource.CLIENT_METRICS, "apps", {"metrics": "b.,c.", "match": "client_id=app-.*"})
    others = {"metrics": "d.", "interval.ms": "100", "match": "client_id=app-.*,client_software_name=java"}
    configs.replace(Resource.CLIENT_METRICS, "others", others)
    found = clients.subscribe(ID, CLIENT, NOW)
    assert found.metrics == ("a.", "b.", "c.")
    assert found.interval_ms == 1000
    configs.replace(Resource.CLIENT_METRICS, "more", {"metrics": "*"})
    assert clients.subscribe(ID, CLIENT, NOW).metrics == ("*",)


def test_a_client_may_ask_once_in_an_interval(configs: Configs, clients: ClientMetrics) -> None:
    found = clients.subscribe(ID, CLIENT, NOW)
    with pytest.raises(RequestError, match="before the next push interval") as caught:
        clients.subscribe(ID, CLIENT, NOW + 999)
    assert caught.value.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert clients.subscribe(ID, CLIENT, NOW + 1000) == found


def test_the_first_push_may_come_at_once_and_others_after_the_interval(clients: ClientMetrics) -> None:
    subscription = clients.subscribe(ID, CLIENT, NOW)
    clients.push(push(subscription), CLIENT, NOW + 1)
    assert refusal(clients, push(subscription), NOW + 1000) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    clients.push(push(subscription), CLIENT, NOW + 1001)
    (found,) = clients.pushes()
    assert found.received_at == NOW + 1001
    assert found.resources == (PUSHED,)
    assert found.client == CLIENT


def test_a_changed_subscription_is_asked_for_at_once(configs: Configs, clients: ClientMetrics) -> None:
    subscription = clients.subscribe(ID, CLIENT, NOW)
    clients.push(push(subscription), CLIENT, NOW + 1)
    configs.replace(Resource.TOPIC, "orders", {"retention.ms": "1"})
    assert refusal(clients, push(subscription), NOW + 2) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    configs.replace(Resource.CLIENT_METRICS, "all", {"metrics": "c."})
    assert refusal(clients, push(subscription), NOW + 3) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    changed = clients.subscribe(ID, CLIENT, NOW + 4)
    assert changed.metrics == ("c.",)
    assert changed.id != subscription.id


def test_a_terminating_push_isnt_throttled_and_is_the_last(clients: ClientMetrics) -> None:
    subscription = clients.subscribe(ID, CLIENT, NOW)
    clients.push(push(subscription), CLIENT, NOW + 1)
    clients.push(push(subscription, terminating=True), CLIENT, NOW + 2)
    assert refusal(clients, push(subscription), NOW + 5000) == ErrorCode.INVALID_REQUEST
    assert [each.is_terminating for each in clients.pushes()] == [True]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"client_instance_id": bytes(16)}, ErrorCode.INVALID_REQUEST),
        ({"client_instance_id": bytes(15) + b"\1"}, ErrorCode.INVALID_REQUEST),
        ({"subscription_id": 5}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"compression_type": 9}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"metrics": bytes(1001)}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"metrics": b"garbage", "compression_type": 4}, ErrorCode.INVALID_RECORD),
        ({"metrics": b"garbage"}, ErrorCode.INVALID_RECORD),
    ],
)
def test_invalid_pushes_are_refused(
    clients: ClientMetrics, changes: dict[str, object], error: ErrorCode
) -> None:
    subscription = clients.subscribe(ID, CLIENT, NOW)
    assert refusal(clients, push(subscription, **changes), NOW + 1) == error
    assert not list(clients.pushes())


@pytest.mark.parametrize("codec", list(Compression))
def test_every_compression_is_read(clients: ClientMetrics, codec: Compression) -> None:
    subscription = clients.subscribe(ID, CLIENT, NOW)
    data = compress(codec, encode_metrics([PUSHED]))
    clients.push(push(subscription, compression_type=codec, metrics=data), CLIENT, NOW + 1)
    (found,) = clients.pushes()
    assert (found.resources, found.compression, found.size) == ((PUSHED,), codec, len(data))


def test_a_push_of_a_client_that_the_broker_has_forgotten_is_checked(
    configs: Configs, clients: ClientMetrics
) -> None:
    subscription = clients.subscribe(ID, CLIENT, NOW)
    restarted = ClientMetrics(configs)
    restarted.push(push(subscription), CLIENT, NOW)
    assert [each.instance_id for each in restarted.pushes()] == [ID]


# --- as clients see it


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def altered(name: str, operation: int, **values: str | None) -> IncrementalAlterConfigsRequest:
    configs = [AlterableConfig(key.replace("_", "."), operation, value) for key, value in values.items()]
    return IncrementalAlterConfigsRequest([AlterConfigsResource(Resource.CLIENT_METRICS, name, configs)])


def test_subscriptions_are_configured_as_in_kafka(broker: Broker) -> None:
    async def talk() -> None:
        async with Pool(NetSettings.parse(broker.bootstrap)) as pool:

            async def alter(name: str, operation: int = SET, **values: str | None) -> tuple[int, str | None]:
                response = await pool.ask(None, altered(name, operation, **values))
                return response.responses[0].error_code, response.responses[0].error_message

            code, message = await alter("s", interval_ms="99")
            assert (code, "between 100 and 3600000" in str(message)) == (ErrorCode.INVALID_REQUEST, True)
            assert (await alter("s", interval_ms="often"))[0] == ErrorCode.INVALID_CONFIG
            assert (await alter("s", foo="1"))[0] == ErrorCode.INVALID_REQUEST
            assert (await alter("s", match="foo=1"))[0] == ErrorCode.INVALID_CONFIG
            assert (await alter("", interval_ms="100"))[0] == ErrorCode.INVALID_REQUEST
            assert (await alter("s", APPEND, metrics="x"))[0] == ErrorCode.INVALID_CONFIG
            assert (await alter("s", interval_ms="100", metrics="*"))[0] == ErrorCode.NONE
            listed = await pool.ask(None, ListConfigResourcesRequest(bytes([Resource.CLIENT_METRICS])))
            assert [each.resource_name for each in listed.config_resources] == ["s"]
            describe = DescribeConfigsRequest(
                [DescribeConfigsResource(Resource.CLIENT_METRICS, name, None) for name in ("s", "other", "")],
                include_synonyms=True,
            )
            own, other, nameless = (await pool.ask(None, describe)).results
            assert [(c.name, c.value, c.config_source, len(c.synonyms)) for c in own.configs] == [
                ("interval.ms", "100", 7, 1),
                ("match", "", 5, 0),
                ("metrics", "*", 7, 1),
            ]
            assert {each.config_source for each in other.configs} == {5}
            assert nameless.error_code == ErrorCode.INVALID_REQUEST
            await alter("s", DELETE, interval_ms=None, metrics=None)
            listed = await pool.ask(None, ListConfigResourcesRequest(bytes([Resource.CLIENT_METRICS])))
            assert listed.config_resources == []

    anyio.run(talk)


def test_a_client_asks_and_pushes(broker: Broker) -> None:
    broker.subscribe_client_metrics("all", {"metrics": "*", "match": "client_software_name=kshare"})

    async def talk() -> None:
        async with Pool(NetSettings.parse(broker.bootstrap, client_id="app")) as pool:
            found = await pool.ask(None, GetTelemetrySubscriptionsRequest())
            assert found.requested_metrics == ["*"]
            assert found.accepted_compression_types == bytes([4, 3, 1, 2])
            assert found.telemetry_max_bytes == 1_048_576
            assert found.delta_temporality
            again = await pool.ask(None, GetTelemetrySubscriptionsRequest(found.client_instance_id))
            assert again.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            request = PushTelemetryRequest(found.client_instance_id, found.subscription_id)
            request.metrics = encode_metrics([PUSHED])
            assert (await pool.ask(None, request)).error_code == ErrorCode.NONE
            assert (await pool.ask(None, request)).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED

    anyio.run(talk)
    (pushed,) = broker.client_metrics()
    assert pushed.resources == (PUSHED,)
    assert pushed.client.client_id == "app"
    assert pushed.client.software_name == "kshare"
    assert pushed.client.address == "127.0.0.1"
    assert pushed.client.port > 0


def test_invalid_subscriptions_are_refused_by_the_test_broker(broker: Broker) -> None:
    with pytest.raises(ConfigError, match="between 100 and"):
        broker.subscribe_client_metrics("all", {"interval.ms": "1"})
    with pytest.raises(ConfigError, match="name must be a string"):
        broker.subscribe_client_metrics("", {})


def test_what_is_kept_is_bounded_in_sum(clients: ClientMetrics, monkeypatch: pytest.MonkeyPatch) -> None:
    """25 pushes of 89 bytes took 380 MB."""
    size = len(encode_metrics([PUSHED]))
    monkeypatch.setattr(client_metrics, "_MOST_KEPT", 3 * size)
    names = [bytes([1 + number] * 16) for number in range(5)]
    for now, name in enumerate([*names, names[2]]):  # the last one replaces its own
        subscription = clients.subscribe(name, CLIENT, NOW + 2000 * now)
        clients.push(push(subscription, client_instance_id=name), CLIENT, NOW + 2000 * now + 1000)
    assert [push.instance_id for push in clients.pushes()] == [names[3], names[4], names[2]]


def test_a_push_that_becomes_much_is_refused(clients: ClientMetrics) -> None:
    subscription = clients.subscribe(ID, CLIENT, NOW)
    bomb = compress(Compression.ZSTD, bytes(5 << 20))
    assert refusal(clients, push(subscription, metrics=bomb, compression_type=4), NOW + 1) == (
        ErrorCode.INVALID_RECORD
    )
