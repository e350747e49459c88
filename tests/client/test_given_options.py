"""What is wrong with options is told at once."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kshare import AdminClient, Producer, ShareConsumer, sync
from kshare.errors import ConfigError

PASTED: dict[str, Any] = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "orders",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "session.timeout.ms": "45000",
}
PASTED_RIGHT: dict[str, Any] = {"bootstrap.servers": "localhost:9092", "topics": ["orders"]}


def test_pasted_options_are_refused_together() -> None:
    with pytest.raises(ConfigError) as refused:
        ShareConsumer(**PASTED, topics=["orders"])
    first, *lines = str(refused.value).splitlines()
    assert first == "3 mistakes in the configuration:"
    names = ("auto.offset.reset", "enable.auto.commit", "session.timeout.ms")
    assert [line.split(": ")[0] for line in lines] == [f"- {name}" for name in names]


def test_one_is_refused_as_it_is() -> None:
    with pytest.raises(ConfigError, match=r"^there is no option 'grup'; did you mean group\?$"):
        ShareConsumer(**{**PASTED_RIGHT, "grup": "orders"})


SECRET = "hunter2"
CONNECTING: dict[str, Any] = {
    "bootstrap_servers": "localhost",
    "request_timeot": 5,
    "connect_timeout": 0,
    "sasl_mechanism": "PLAIN",
    "password": SECRET,
    "cert_file": "/cert.pem",
    "debug": "all",
}
WRONG_CONNECTING = {
    "there is no option 'request_timeot'; did you mean request_timeout?",
    'debug: leave it out: set the level of the loggers "kshare.client" and "kshare.net"',
    "cert_file has no effect without TLS: add tls=True",
    "PLAIN needs username, a non-empty string",
    "'localhost' has no port: write localhost:9092",
    "connect_timeout must be a positive number of seconds, at most 86,400, not 0",
}


def mistakes(client: Any, **options: Any) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        client(**options)
    assert SECRET not in str(refused.value)
    found = list(refused.value.mistakes)
    assert len(found) == len(set(found))
    return found


@pytest.mark.parametrize("make", [ShareConsumer, sync.ShareConsumer])
def test_names_and_values_of_a_consumer_are_refused_together(make: Any) -> None:
    found = mistakes(make, **CONNECTING, max_records=0, acquire="all", on_settled=5, topics="or ders")
    assert set(found) > WRONG_CONNECTING
    others = [mistake.split()[0] for mistake in found if mistake not in WRONG_CONNECTING]
    assert others == ["group", "topics:", "acquire", "max_records", "on_settled"]


@pytest.mark.parametrize("make", [Producer, sync.Producer])
def test_names_and_values_of_a_producer_are_refused_together(make: Any) -> None:
    found = mistakes(make, **CONNECTING, linger=-1, compression="zip", retries=3)
    assert set(found) > WRONG_CONNECTING
    others = [mistake.split()[0] for mistake in found if mistake not in WRONG_CONNECTING]
    assert others == ["retries:", "compression", "linger"]


def test_names_and_values_of_an_admin_client_are_refused_together() -> None:
    found = mistakes(AdminClient, **CONNECTING, max_records=1)
    assert set(found) == {
        *WRONG_CONNECTING,
        "max_records is an option of consumers, not of AdminClient: leave it out",
    }


@pytest.mark.parametrize(
    ("options", "mistake"),
    [
        ({"group": None, "grup": "g"}, "there is no option 'grup'; did you mean group?"),
        ({"group": None, "group.idd": "g"}, "there is no option 'group.idd'; did you mean group.id?"),
        ({"tlss": True, "ca_file": "/ca"}, "there is no option 'tlss'; did you mean tls?"),
        (
            {"backoff_min": 5, "reconnect.backoff.max.ms": "x"},
            "reconnect.backoff.max.ms: 'x' isn't a whole number",
        ),
        (
            {"sasl_mechanism": "PLAIN", "sasl.jaas.config": "PlainLoginModule x"},
            "sasl.jaas.config: there is no username in it",
        ),
        ({"group": 5}, "group must be a non-empty string, not 5"),
        ({"client_id": 5}, "client_id must be a non-empty string, not 5"),
        (
            {"request_timeout": -1},
            "request_timeout must be a positive number of seconds, at most 86,400, not -1",
        ),
    ],
)
def test_what_follows_from_a_mistake_is_no_further_one(options: dict[str, Any], mistake: str) -> None:
    given = {
        name: value for name, value in ({"group": "g", "topics": "t"} | options).items() if value is not None
    }
    assert mistakes(ShareConsumer, bootstrap_servers="localhost:9092", **given) == [mistake]


@pytest.mark.parametrize("client", [ShareConsumer, sync.ShareConsumer, Producer, sync.Producer, AdminClient])
def test_a_dictionary_has_to_be_unpacked(client: type) -> None:
    """As it is passed to confluent-kafka."""
    wanted = "options are passed by name, not in a dictionary: write ** before it: "
    with pytest.raises(ConfigError, match=re.escape(f"{wanted}{client.__name__}(**options).")):
        client(PASTED)
    with pytest.raises(ConfigError, match=re.escape(f"{wanted}{client.__name__}(**config).")):
        client("localhost:9092", config=PASTED)
    reads = {"group.id": "orders", "topics": ["orders"]} if "Consumer" in client.__name__ else {}
    client(**{"bootstrap.servers": "localhost:9092", **reads})


@pytest.mark.parametrize("make", [ShareConsumer, sync.ShareConsumer])
@pytest.mark.parametrize("positional", [("localhost:9092", PASTED), (PASTED, ["orders"])])
def test_a_dictionary_among_other_arguments(make: Any, positional: tuple[object, ...]) -> None:
    with pytest.raises(ConfigError, match=r"write \*\* before it: ShareConsumer\(\*\*options\)"):
        make(*positional)


@pytest.mark.parametrize("make", [ShareConsumer, sync.ShareConsumer])
@pytest.mark.parametrize(
    ("positional", "options"),
    [
        (("orders", "returns"), {"bootstrap_servers": "localhost:9092"}),
        (("localhost:9092", "orders", "returns"), {}),
        (("localhost:9092", ["orders", "returns"]), {}),
    ],
)
def test_topics_without_a_name(make: Any, positional: tuple[str, ...], options: dict[str, str]) -> None:
    """As with kafka-python. The error was a TypeError about a class that isn't public."""
    with pytest.raises(ConfigError, match=r"by name, in a list: write topics=\['orders', 'returns'\]"):
        make(*positional, group_id="g", **options)
