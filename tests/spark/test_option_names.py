"""Errors name options as users of Spark write them."""

from __future__ import annotations

import pytest

from kshare.errors import ConfigError
from kshare.spark.options import ReadOptions

PLAIN = {"kafka.bootstrap.servers": "one:9092", "group": "shipping", "subscribe": "orders"}
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="secret";'
TIMEOUT = "kafka.request.timeout.ms must be a positive number of seconds, at most 86,400, not -0.005"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"kafka.request.timeout.ms": "-5"}, TIMEOUT),
        ({"kafka.request.timeout.ms": "x"}, "kafka.request.timeout.ms: 'x' isn't a whole number"),
        ({"kafka.client.id": ""}, "kafka.client.id must be a non-empty string, not ''"),
        ({"kafka.max.poll.records": "5"}, "kafka.max.poll.records: write maxRecordsPerTrigger instead"),
        ({"kafka.max_records": "5"}, "there is no option 'kafka.max_records'"),
        (
            {"kafka.security.protocl": "SSL"},
            "there is no option 'kafka.security.protocl'; did you mean kafka.security.protocol?",
        ),
        (
            {"kafka.security.protocol": "SASL_SSL"},
            'kafka.security.protocol: SASL_SSL needs a SASL mechanism: add option("kafka.sasl.mechanism", "PLAIN")',
        ),
        (
            {"kafka.sasl.jaas.config": SCRAM},
            "kafka.sasl.jaas.config is given without kafka.sasl.mechanism: add one of PLAIN, SCRAM-SHA-256",
        ),
        (
            {"kafka.enable.auto.commit": "true"},
            "kafka.enable.auto.commit: leave it out: a query doesn't use this setting",
        ),
        (
            {"kafka.sasl.mechanism": "X", "kafka.security.protocol": "SASL_PLAINTEXT"},
            "kafka.sasl.mechanism 'X' is unknown: choose one of PLAIN",
        ),
        (
            {"kafka.share.acknowledgement.mode": "explicit"},
            "kafka.share.acknowledgement.mode: micro-batches are acknowledged as a whole: see the option settle",
        ),
    ],
)
def test_errors_have_names_of_spark(more: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ReadOptions.parse({**PLAIN, **more}, is_streaming=True)
    assert str(caught.value).startswith(message)
    assert "secret" not in str(caught.value)
