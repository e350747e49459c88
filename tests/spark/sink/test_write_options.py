"""The options of the sink: which are understood, and what the errors say."""

from __future__ import annotations

import pytest

from kshare.errors import ConfigError
from kshare.spark.sink.write_options import WriteOptions

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def parse(given: dict[str, str], *, is_streaming: bool = True) -> WriteOptions:
    return WriteOptions.parse({**SERVERS, **given}, is_streaming=is_streaming)


def test_kafkas_names_are_those_of_the_producer() -> None:
    options = parse(
        {
            "TOPIC": "shipped",
            "kafka.compression.type": "zstd",
            "kafka.linger.ms": "20",
            "kafka.acks": "all",
            "checkpointLocation": "/somewhere",
        }
    )
    assert options.topic == "shipped"
    assert (options.writing.compression, options.writing.linger) == ("zstd", 0.02)
    assert options.writing.transactional_id is None


def test_with_transactions_a_task_may_take_minutes() -> None:
    assert parse({"exactlyOnceTopic": "markers"}).writing.transaction_timeout == 300
    given = {"exactlyOnceTopic": "markers", "kafka.transaction.timeout.ms": "60000"}
    assert parse(given).writing.transaction_timeout == 60


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topc": "x"}, r"there is no option 'topc'; did you mean topic\?"),
        (
            {"zzz": "x"},
            r"the options are topic, exactlyOnceTopic, kafka.bootstrap.servers, other kafka.\*",
        ),
        ({"topic": " "}, "topic is empty"),
        ({"includeHeaders": "true"}, "headers are written if there is a column headers"),
        ({"subscribe": "orders"}, "subscribe: this is an option for reading: leave it out"),
        ({"path": "/x"}, r'write option\("topic", "orders"\)'),
        ({"kafka.acks": "1"}, "kafka.acks: records are confirmed by all in-sync replicas"),
        ({"kafka.transactional.id": "x"}, "kafka.transactional.id: leave it out"),
        ({"kafka.nonsense": "x"}, "nonsense"),
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is missing"),
        ({"topic": "same", "exactlyOnceTopic": "same"}, "both same: batch markers need a topic of their own"),
    ],
)
def test_errors_say_what_to_write(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(given)


def test_a_batch_has_no_exactly_once_mode() -> None:
    with pytest.raises(ConfigError, match="exactlyOnceTopic is for streams"):
        parse({"exactlyOnceTopic": "markers"}, is_streaming=False)


def test_secrets_are_not_in_errors() -> None:
    given = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    secret = (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hunter2"'
    )
    with pytest.raises(ConfigError) as caught:
        parse({**given, "kafka.sasl.jaas.config": secret, "topc": "x"})
    assert "hunter2" not in str(caught.value)


def test_all_mistakes_are_told_at_once() -> None:
    given = {
        "topc": "x",
        "subscribe": "orders",
        "exactlyOnceTopic": " ",
        "kafka.acks": "1",
        "kafka.linger.ms": "-5",
        "kafka.nonsense": "x",
        "kafka.transactional.id": "x",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.password": "secret",
    }
    with pytest.raises(ConfigError) as caught:
        WriteOptions.parse(given, is_streaming=True)
    assert "secret" not in str(caught.value)
    assert [mistake.split(": ")[0].split(";")[0] for mistake in caught.value.mistakes] == [
        "there is no option 'topc'",
        "subscribe",
        "exactlyOnceTopic is empty",
        "kafka.transactional.id",
        "kafka.acks",
        "there is no option 'nonsense'",
        "kafka.bootstrap.servers is missing",
        "PLAIN needs username, a non-empty string",
        "linger must be a number of seconds, 0 or more, at most 86,400, not -0.005",
    ]
