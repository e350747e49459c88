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
    text = str(refused.value)
    assert text.startswith("3 options can't be used: auto.offset.reset: ")
    for name in ("enable.auto.commit: ", "session.timeout.ms: "):
        assert f"; {name}" in text


def test_one_is_refused_as_it_is() -> None:
    with pytest.raises(ConfigError, match=r"^there is no option 'grup'; did you mean group\?$"):
        ShareConsumer(**{**PASTED_RIGHT, "grup": "orders"})


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
