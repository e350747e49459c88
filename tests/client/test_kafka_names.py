"""Configurations of the Java client, librdkafka and kafka-python, pasted unchanged."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from kshare.client.config import ConsumerConfig
from kshare.errors import ConfigError
from kshare.net.settings import Security


def security(**options: Any) -> Security:
    return (
        ConsumerConfig.make("localhost:9092", {"group": "g", "topics": "t", **options})
        .net_settings()
        .security
    )


def test_librdkafka_configuration_is_accepted() -> None:
    config = ConsumerConfig.make(
        None,
        {
            "bootstrap.servers": "b1:9093,b2:9093",
            "group.id": "orders",
            "topics": ["orders"],
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-256",
            "sasl.username": "u",
            "sasl.password": "p",
            "ssl.ca.location": "/etc/ca.pem",
            "enable.ssl.certificate.verification": True,
            "socket.connection.setup.timeout.ms": "2500",
        },
    )
    net = config.net_settings()
    assert net.bootstrap == (("b1", 9093), ("b2", 9093))
    assert net.connect_timeout == 2.5
    said = net.security
    assert (said.tls, said.ca_file, said.sasl_mechanism) == (True, "/etc/ca.pem", "SCRAM-SHA-256")
    assert (said.username, said.password, said.check_hostname) == ("u", "p", True)


def test_java_configuration_is_accepted() -> None:
    login = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="alice" password="it\\"s; a = secret";'
    )
    said = security(
        **{
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": login,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "/etc/trust",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert (said.username, said.password) == ("alice", 'it"s; a = secret')
    assert (said.tls, said.ca_file, said.check_hostname) == (True, "/etc/trust", False)


def test_kafka_python_configuration_is_accepted() -> None:
    context = ssl.create_default_context()
    said = security(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="u",
        sasl_plain_password="p",
    )
    assert (said.tls, said.username, said.password) == (False, "u", "p")
    assert security(ssl_context=context).tls is context
    assert security(security_protocol="SSL", ssl_context=context).tls is context
    assert security(ssl_context=context, security_protocol="SSL").tls is context
    sasl = security(
        security_protocol="SASL_SSL",
        ssl_context=context,
        sasl_mechanism="PLAIN",
        sasl_plain_username="u",
        sasl_plain_password="p",
    )
    assert (sasl.tls, sasl.username) == (context, "u")
    assert security(security_protocol="SSL", ssl_context=None).tls is True
    assert security(security_protocol="PLAINTEXT", ssl_context=None).tls is False
    with pytest.raises(
        ConfigError, match="PLAINTEXT doesn't use TLS, but ssl_context is given: write SSL or"
    ):
        security(security_protocol="PLAINTEXT", ssl_context=context)
    assert not security(security_protocol="SSL", ssl_check_hostname=False).check_hostname


def test_mutual_tls_with_librdkafkas_names() -> None:
    said = security(
        **{
            "security.protocol": "ssl",
            "ssl.certificate.location": "/c.pem",
            "ssl.key.location": "/k.pem",
            "ssl.key.password": "x",
        }
    )
    assert (said.cert_file, said.key_file, said.key_password) == ("/c.pem", "/k.pem", "x")


JAAS = "com.sun.security.auth.module.Krb5LoginModule required;"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"security.protocol": "TLS"}, "security.protocol: must be one of PLAINTEXT, SSL, SASL_PLAINTEXT"),
        ({"security.protocol": "SASL_SSL"}, 'needs a SASL mechanism: add sasl_mechanism="PLAIN"'),
        (
            {"security.protocol": "SSL", "sasl.mechanism": "PLAIN"},
            "SSL doesn't use SASL, but sasl.mechanism is given: write SASL_SSL",
        ),
        ({"security.protocol": "SSL", "tls": True}, "security.protocol and tls both set tls: give only one"),
        ({"sasl.jaas.config": JAAS}, "sasl.jaas.config: only PlainLoginModule and Scram.* kinit"),
        ({"sasl.jaas.config": "PlainLoginModule required username=u;"}, "there is no password in it"),
        ({"ssl.truststore.location": "/t.jks"}, "convert it to PEM and write ca_file=<that file>"),
        ({"ssl.keystore.type": "PKCS12"}, "ssl.keystore.type: PKCS12 can't be read"),
        ({"ssl.ca.pem": "-----BEGIN"}, "ssl.ca.pem: .* write ca_file=<a PEM file>"),
        ({"ssl.endpoint.identification.algorithm": "x"}, "must be https or empty"),
        ({"enable.ssl.certificate.verification": "false"}, r"write tls=<an ssl.SSLContext>"),
        ({"enable.ssl.certificate.verification": "no"}, "must be true or false, not 'no'"),
        ({"sasl.oauthbearer.token.endpoint.url": "x"}, "write token=<a function"),
        (
            {"value.deserializer": "org.x.StringDeserializer"},
            "write value_deserializer=<a function of bytes>",
        ),
        (
            {"consumer_timeout_ms": 100},
            r"leave it out .*move_on_after.*; with kshare.sync, call next_batch\(timeout=",
        ),
        ({"debug": "all"}, "set the level of the loggers"),
        ({"fetch.min.bytes": 1}, "fetches adapt"),
        ({"ssl.ca.location": "/ca.pem"}, r"ca_file has no effect without TLS: add tls=True"),
        ({"ssl.ca.locatoin": "/ca.pem"}, r"did you mean ssl.ca.location\?"),
    ],
)
def test_unsupported_options_are_refused_with_what_to_write(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        security(**options)


def test_refused_jaas_config_is_not_repeated() -> None:
    with pytest.raises(ConfigError) as caught:
        security(**{"sasl.jaas.config": 'PlainLoginModule required password="hunter2";'})
    assert "hunter2" not in str(caught.value)


def test_bootstrap_servers_may_be_a_list_and_are_required() -> None:
    made = ConsumerConfig.make(["a:1", "b:2"], {"group": "g", "topics": "t"})
    assert made.bootstrap_servers == "a:1,b:2"
    with pytest.raises(ConfigError, match='bootstrap_servers is missing: write "localhost:9092"'):
        ConsumerConfig.make(None, {"group": "g", "topics": "t"})


@pytest.mark.parametrize(
    ("pasted", "max_records"),
    [({"fetch.max.bytes": "1000000"}, 1_000_000), ({"queued.max.messages.kbytes": 64}, 65_536)],
)
def test_limits_on_fetched_bytes_set_max_bytes(pasted: dict[str, Any], max_records: int) -> None:
    config = ConsumerConfig.make("localhost:9092", {"group": "g", "topics": "t", **pasted})
    assert config.max_bytes == max_records
