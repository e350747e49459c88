"""Options: any case is accepted, Kafka's are prefixed with `kafka.`, and every error says what to write."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kshare.errors import ConfigError
from kshare.spark.options import ReadOptions, lease_token

PLAIN = {"kafka.bootstrap.servers": "one:9092,two:9092", "group": "shipping", "subscribe": "orders, refunds"}


def parse(**more: str) -> ReadOptions:
    return ReadOptions.parse({**PLAIN, **more}, is_streaming=True)


def test_required_options() -> None:
    options = parse()
    assert options.topics == ("orders", "refunds")
    assert options.group == "shipping"
    assert options.net_settings().bootstrap == (("one", 9092), ("two", 9092))
    assert (options.settle, options.fail_on_data_loss, options.include_headers) == ("sink", True, False)


def test_names_in_any_case_and_names_of_sparks_kafka_source() -> None:
    options = parse(INCLUDEHEADERS="True", maxOffsetsPerTrigger="500", minpartitions="8", maxWaitMs="20")
    assert (options.include_headers, options.max_records, options.min_partitions) == (True, 500, 8)
    assert options.max_wait == 0.02


def test_security_options_of_kafka() -> None:
    options = parse(
        **{
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "SCRAM-SHA-256",
            "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="ann" password="secret";',
        }
    )
    security = options.net_settings().security
    assert (security.username, security.password) == ("ann", "secret")
    assert "secret" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"subscribe": ""}, "names no topic"),
        ({"subscribe": "orders,refunds:1"}, "subscribe: 'refunds:1' isn't the name of a topic"),
        ({"gruop": "x"}, "did you mean group"),
        ({"includeHeader": "true"}, "did you mean includeHeaders"),
        ({"includeHeaders": "yes"}, "includeHeaders must be true or false, not 'yes'"),
        ({"startingOffsets": "earliest"}, r"share\.auto\.offset\.reset"),
        ({"startingoffsets": "earliest"}, r"^startingOffsets: "),  # Spark passes lower-case names
        ({"subscribePattern": "o.*"}, r'option\("subscribe"'),
        ({"assign": "{}"}, r'option\("subscribe"'),
        ({"journalTopic": "mine"}, "journalTopic needs settle=journal"),
        ({"settle": "journal", "settleRows": "true"}, "settleRows needs settle=sink: with journal"),
        (
            {"settle": "journal", "journalTopic": "mine", "journalFolder": "/a"},
            "journalTopic and journalFolder exclude each other",
        ),
        (
            {"settle": "journal", "journalFolder": "s3://bucket/a"},
            "must be an absolute path on the driver's machine",
        ),
        ({"settle": "journal", "journalFolder": "here"}, "must be an absolute path on the driver's machine"),
        ({"settle": "journal", "journalMaxBytes": "1 GB"}, "must be a number of bytes"),
        ({"settle": "both"}, "sink .*, checkpoint .* or journal"),
        ({"maxRecordsPerTrigger": "0"}, "from 1 to"),
        (
            {"maxRecordsPerTrigger": "5", "maxOffsetsPerTrigger": "5"},
            "^maxRecordsPerTrigger and maxOffsetsPerTrigger mean the same",
        ),
        ({"maxWaitMs": "1s"}, "milliseconds"),
        ({"kafka.group.id": "other"}, "group and kafka.group.id mean the same"),
        ({"kafka.max.poll.records": "5"}, "maxRecordsPerTrigger"),
        (
            {"kafka.auto.offset.reset": "earliest"},
            r"kafka\.auto\.offset\.reset: .*share\.auto\.offset\.reset",
        ),
        ({"kafka.security.protocl": "SSL"}, r"did you mean kafka\.security\.protocol"),
        ({"group": " "}, "group is empty"),
        ({"settleRows": "true", "settle": "checkpoint"}, "settleRows needs settle=sink"),
        ({"path": "orders"}, r"load\(\)"),
    ],
)
def test_errors_say_what_to_write(more: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse(**more)


@pytest.mark.parametrize("missing", PLAIN)
def test_errors_name_missing_options(missing: str) -> None:
    rest = {name: value for name, value in PLAIN.items() if name != missing}
    with pytest.raises(ConfigError, match=rf"{missing} is missing: write option\(\"{missing}\""):
        ReadOptions.parse(rest, is_streaming=True)


@pytest.mark.parametrize("name", ["settle", "maxRecordsPerTrigger", "maxWaitMs", "settleRows"])
def test_views_refuse_options_of_streams(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is for streams"):
        ReadOptions.parse({**PLAIN, name: "1"}, is_streaming=False)


def test_a_lease_excludes_other_options() -> None:
    assert lease_token(PLAIN) is None
    assert lease_token({"lease": "abc", "includeHeaders": "true"}) == "abc"
    others: list[dict[str, Any]] = [{"lease": ""}, {"lease": "abc", "group": "shipping"}]
    for wrong in others:
        with pytest.raises(ConfigError, match="lease"):
            lease_token(wrong)


def test_all_mistakes_are_told_at_once() -> None:
    given = {
        "gruop": "shipping",  # that group is missing is no further mistake
        "startingOffsets": "earliest",
        "includeHeaders": "yes",
        "maxWaitMs": "1s",
        "journalTopic": "mine",
        "minPartitions": "5",
        "maxPartitions": "2",
        "kafka.bootstrap.servers": "one",
        "kafka.request.timeout.ms": "x",
        "kafka.security.protocl": "SASL_SSL",
        "kafka.enable.auto.commit": "true",
        "kafka.sasl.jaas.config": 'PlainLoginModule username="ann" password="secret"',
        "kafka.max.poll.records": "5",
    }
    with pytest.raises(ConfigError) as caught:
        ReadOptions.parse(given, is_streaming=True)
    assert "secret" not in str(caught.value)
    assert [mistake.split(": ")[0].split(";")[0] for mistake in caught.value.mistakes] == [
        "there is no option 'gruop'",
        "startingOffsets",
        "includeHeaders must be true or false, not 'yes'",
        "maxWaitMs must be a whole number of milliseconds, not '1s'",
        "there is no option 'kafka.security.protocl'",
        "kafka.enable.auto.commit",
        "subscribe is missing",
        "kafka.request.timeout.ms",
        "'one' has no port",
        "kafka.max.poll.records",
        "minPartitions must not be larger than maxPartitions",
        "journalTopic needs settle=journal",
    ]


@pytest.mark.parametrize(
    ("missing", "instead"),
    [
        ("subscribe", {"topics": "orders"}),
        ("subscribe", {"subscribePattern": "o.*"}),
        ("subscribe", {"subscrib": "orders"}),
        ("group", {"groupIdPrefix": "shipping"}),
        ("group", {"kafka.group.idd": "shipping"}),
        ("kafka.bootstrap.servers", {"kafka.bootstrap.server": "one:9092"}),
    ],
)
def test_what_a_wrong_name_stands_for_is_not_missing(missing: str, instead: dict[str, str]) -> None:
    rest = {name: value for name, value in PLAIN.items() if name != missing}
    with pytest.raises(ConfigError) as caught:
        ReadOptions.parse({**rest, **instead}, is_streaming=True)
    (mistake,) = caught.value.mistakes
    assert next(iter(instead)) in mistake


def test_the_last_of_two_spellings_counts() -> None:
    assert parse(GROUP="billing").group == "billing"
