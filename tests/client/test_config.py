"""Consumer options, and the error messages for invalid ones."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from kshare.client.config import ConsumerConfig
from kshare.errors import ConfigError


def make(**options: Any) -> ConsumerConfig:
    return ConsumerConfig.make("localhost:9092", {"group": "g", "topics": ["t"], **options})


def test_defaults() -> None:
    config = make()
    assert (config.acknowledgement, config.acquire, config.renew_leases) == ("implicit", "auto", True)
    assert config.topics == ("t",)


def test_single_topic_may_be_a_string_and_duplicates_are_removed() -> None:
    assert make(topics="t").topics == ("t",)
    assert make(topics=["b", "a", "b"]).topics == ("b", "a")


def test_kafkas_dotted_names_are_accepted() -> None:
    pasted = {
        "group.id": "g",
        "topics": ["t"],
        "max.poll.records": "500",
        "share.acknowledgement.mode": "explicit",
        "share.acquire.mode": "record_limit",
        "request.timeout.ms": "1500",
    }
    config = ConsumerConfig.make("localhost:9092", pasted)
    assert (config.group, config.max_records, config.acknowledgement) == ("g", 500, "explicit")
    assert (config.acquire, config.request_timeout) == ("records", 1.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gruop": "g"}, "there is no option 'gruop'; did you mean group?"),
        ({"zzz": 1}, "there is no option 'zzz'$"),
        ({"group": ""}, 'group is missing: write group="orders"'),
        ({"group": " "}, "group must be a non-empty string, not ' '"),
        ({"group": "g" * 32768}, "group has 32,768 bytes, and Kafka's protocol allows 32,767 in a string"),
        ({"topics": []}, r'topics is missing: write topics=\["orders"\]'),
        ({"topics": [7]}, "topics must be a list of topic names"),
        (
            {"topics": ["payments", "orders:7"]},
            "topics: 'orders:7' isn't the name of a topic: use letters, digits, .* partitions can't be chosen here",
        ),
        ({"topics": ".."}, r"topics: '\.\.' isn't the name of a topic: use letters, .* at most 249$"),
        ({"group.id": "h"}, "group and group.id both set group: give only one"),
        ({"acknowledgement": "auto"}, "acknowledgement must be 'implicit' or 'explicit', not 'auto'"),
        ({"acquire": "all"}, "acquire must be 'auto' or 'batches' or 'records', not 'all'"),
        ({"max_records": 0}, "max_records must be between 1 and 1000000, not 0"),
        ({"max_records": True}, "max_records must be an integer, not True"),
        ({"max_records": "10"}, "max_records must be an integer, not '10'"),
        ({"max_bytes": 0}, "max_bytes must be a number of bytes above 0, not 0"),
        ({"max_bytes": "64M"}, "max_bytes must be a number of bytes above 0, not '64M'"),
        ({"max.poll.records": "many"}, "max.poll.records: 'many' isn't a whole number"),
        ({"request.timeout.ms": float("inf")}, "request.timeout.ms: inf isn't a whole number"),
        ({"max_lease_seconds": -1}, "max_lease_seconds must be a positive number of seconds, at most 86,400"),
        ({"close_timeout": float("nan")}, "close_timeout must be a positive number"),
        ({"renew_leases": "yes"}, "renew_leases must be True or False"),
        ({"metrics_push": 1}, "metrics_push must be True or False"),
        ({"enable.metrics.push": "maybe"}, "enable.metrics.push: must be true or false"),
        ({"on_poison": "skip"}, "on_poison must be 'raise' or 'reject' or 'release', not 'skip'"),
        ({"value_deserializer": "json"}, "value_deserializer must be a function, not 'json'"),
        ({"observer": 1}, "observer must be a function, not 1"),
        ({"observer": lambda: None}, "observer must take one argument, the event"),
        ({"on_settled": lambda a, b: None}, "on_settled must take one argument, the outcome"),
        ({"on_settled": anyio.sleep}, "on_settled must be a plain function, not an async one"),
        ({"security": {"tls": True}}, "there is no option 'security'; did you mean security.protocol"),
        (
            {"auto.offset.reset": "earliest"},
            "auto.offset.reset: belongs to the share group; set share.auto.offset.reset with",
        ),
        ({"enable_auto_commit": True}, "enable_auto_commit: share groups have no offsets to commit"),
    ],
)
def test_errors_say_what_to_write(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(**options)


def test_repr_has_no_secrets() -> None:
    made = make(sasl_mechanism="PLAIN", username="u", password="hunter2")
    assert made.net_settings().security.password == "hunter2"
    assert "hunter2" not in repr(made) + repr(made.net_settings())


@pytest.mark.parametrize("servers", [5, ["a:1", 5], [None]])
def test_bootstrap_servers_that_are_no_text_raise_config_error(servers: Any) -> None:
    with pytest.raises(ConfigError, match="is not a bootstrap address"):
        ConsumerConfig.make(servers, {"group": "g", "topics": ["t"]})


def test_long_value_is_shortened_in_the_error() -> None:
    with pytest.raises(ConfigError, match="acknowledgement") as error:
        ConsumerConfig.make("a:1", {"group": "g", "topics": ["t"], "acknowledgement": "x" * 40_000})
    assert len(str(error.value)) < 2100
