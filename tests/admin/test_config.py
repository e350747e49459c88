"""Which options an AdminClient accepts, and its error messages for others."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from kshare import AdminClient, ConfigError, ConnectionLost, KshareError
from kshare.testing import Broker

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("servers", "options", "message"),
    [
        (None, {}, 'bootstrap_servers is missing: write "localhost:9092"'),
        ("localhost:port", {}, "port"),
        (
            "localhost:9092",
            {"bootstrap.servers": "other:9092"},
            "bootstrap_servers and bootstrap.servers both set bootstrap_servers",
        ),
        ("localhost:9092", {"request_timeot": 1}, "did you mean request_timeout"),
        ("localhost:9092", {"group.id": "orders"}, "group.id is an option of consumers"),
        ("localhost:9092", {"max_records": 5}, "max_records is an option of consumers"),
        ("localhost:9092", {"request_timeout": 0}, "request_timeout must be a positive number of seconds"),
        ("localhost:9092", {"sasl.mechanism": "PLAIN"}, "PLAIN needs username"),
    ],
)
def test_wrong_options_raise_config_error_that_says_what_to_write(
    servers: str | None, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        AdminClient(servers, **options)


async def test_kafka_option_names_are_accepted(kshare_broker: Broker) -> None:
    pasted: dict[str, Any] = {
        "bootstrap.servers": kshare_broker.bootstrap,
        "security.protocol": "PLAINTEXT",
        "request.timeout.ms": "20000",
        "client.id": "mine",
    }
    async with AdminClient(**pasted) as admin:
        assert await admin.list_groups() == []


async def test_unreachable_broker_raises_at_once(free_tcp_port: int) -> None:
    with anyio.fail_after(20), pytest.raises(ConnectionLost, match="refused"):
        async with AdminClient(f"127.0.0.1:{free_tcp_port}"):
            pass


async def test_unopened_client_raises_error_that_shows_how_to_open_it() -> None:
    with pytest.raises(KshareError, match="write `async with AdminClient"):
        await AdminClient("localhost:9092").list_groups()


async def test_exception_of_user_code_is_raised_unchanged(kshare_broker: Broker) -> None:
    async def fail() -> None:
        async with AdminClient(kshare_broker.bootstrap) as admin:
            await admin.list_groups()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
