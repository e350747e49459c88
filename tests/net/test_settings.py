"""Settings: valid and invalid values, and error messages that say what to write."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from kshare.errors import ConfigError
from kshare.net.addresses import format_address, parse_addresses
from kshare.net.settings import NetSettings, Security


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", (("localhost", 9092),)),
        (" a:1 , b:65535 ,", (("a", 1), ("b", 65535))),
        ("[::1]:9092,[fe80::1%eth0]:1", (("::1", 9092), ("fe80::1%eth0", 1))),
        (["a:1", "b:2,a:1"], (("a", 1), ("b", 2))),
        ("under_score.example.:9092", (("under_score.example.", 9092),)),
    ],
)
def test_valid_addresses(text: str | list[str], expected: tuple[tuple[str, int], ...]) -> None:
    assert parse_addresses(text) == expected
    assert parse_addresses(",".join(map(format_address, expected))) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "write at least one host:port"),
        (" , ", "write at least one host:port"),
        ([], "write at least one host:port"),
        ("localhost", "'localhost' has no port: write localhost:9092"),
        (":9092", "has no host: write localhost:9092"),
        ("localhost:", "'' is not a port"),
        ("localhost:http", "'http' is not a port"),
        ("localhost:0", "from 1 to 65535"),
        ("localhost:65536", "from 1 to 65535"),
        ("localhost:-1", "is not a port"),
        ("localhost:9٣", "is not a port"),
        ("localhost:" + "9" * 5000, "is not a port"),
        ("::1:9092", "in brackets"),
        ("[::1]", "[::1]:9092"),
        ("[::1", "[::1]:9092"),
        ("[]:9092", "[::1]:9092"),
        ("SASL_SSL://a:9092", "without the SASL_SSL://"),
        ("a b:9092", "not a host name"),
        ("user:secret@a:9092", "contains @: write host:port"),
        (9092, "host:port"),
        ([9092], "host:port"),
    ],
)
def test_invalid_addresses(text: Any, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_addresses(text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tls": "yes"}, "tls must be True, False or an ssl.SSLContext"),
        ({"ca_file": "x"}, "ca_file has no effect without TLS: add tls=True"),
        ({"check_hostname": False}, "add tls=True"),
        ({"tls": True, "check_hostname": 0}, "check_hostname must be True or False"),
        ({"tls": ssl.create_default_context(), "cert_file": "x"}, "set it in the context"),
        ({"tls": True, "key_file": "x"}, "needs cert_file"),
        ({"tls": True, "key_password": "x"}, "needs cert_file"),
        ({"password": "x"}, "without sasl_mechanism"),
        ({"token": str}, "without sasl_mechanism"),
        (
            {"sasl_mechanism": "scram-sha-512", "username": "a", "password": "b"},
            "did you mean 'SCRAM-SHA-512'?",
        ),
        ({"sasl_mechanism": "quux"}, "choose one of PLAIN, SCRAM-SHA-256"),
        ({"sasl_mechanism": 7}, "choose one of PLAIN, SCRAM-SHA-256"),
        ({"sasl_mechanism": "PLAIN", "username": "a"}, "PLAIN needs password"),
        ({"sasl_mechanism": "PLAIN", "password": "a"}, "PLAIN needs username"),
        ({"sasl_mechanism": "PLAIN", "username": "a\0b", "password": "b"}, "username contains a NUL"),
        ({"sasl_mechanism": "OAUTHBEARER"}, "OAUTHBEARER needs token"),
        ({"sasl_mechanism": "OAUTHBEARER", "token": "ey"}, "OAUTHBEARER needs token"),
        ({"sasl_mechanism": "GSSAPI", "kerberos_service_name": ""}, "kerberos_service_name"),
        (
            {"sasl_mechanism": "PLAIN", "username": "a", "password": "b", "token": str},
            "token is for OAUTHBEARER",
        ),
    ],
)
def test_contradictory_security_options(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Security(**options)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"request_timeout": 0}, "request_timeout must be a positive number of seconds, at most 86,400"),
        ({"connect_timeout": float("inf")}, "at most 86,400"),
        ({"connect_timeout": float("nan")}, "connect_timeout"),
        ({"backoff_min": True}, "backoff_min"),
        ({"backoff_min": 2, "backoff_max": 1}, "must not be below backoff_min"),
        ({"client_id": 1}, "client_id must be a string"),
        ({"max_response_bytes": 10}, "max_response_bytes must be from 65536"),
        ({"max_response_bytes": 2**31}, "to 2147483647"),
        ({"sasl_mechanisn": "PLAIN"}, "did you mean sasl_mechanism?"),
    ],
)
def test_settings_out_of_range(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        NetSettings.parse("localhost:9092", **options)
    assert says in str(caught.value)


def test_missing_bootstrap() -> None:
    with pytest.raises(ConfigError, match="host:port"):
        NetSettings(bootstrap=())


def test_repr_has_no_secrets() -> None:
    settings = NetSettings.parse(
        "a:1",
        tls=True,
        cert_file="c",
        key_password="hush-key",
        sasl_mechanism="PLAIN",
        username="alice",
        password="hush-password",
    )
    assert "alice" in repr(settings)
    assert "hush" not in repr(settings)
    assert settings.security.secrets() == ("hush-password", "hush-key")


def test_all_mistakes_are_told_at_once() -> None:
    wrong: dict[str, Any] = {
        "sasl_mechanisn": "PLAIN",  # that sasl_mechanism is missing is no further mistake
        "tls": "yes",
        "password": "hunter2",
        "connect_timeout": 0,
        "backoff_min": "x",  # not compared with backoff_max
        "max_response_bytes": 1,
    }
    with pytest.raises(ConfigError) as caught:
        NetSettings.parse("localhost", **wrong)
    assert "hunter2" not in str(caught.value)
    assert [mistake.split(" must")[0].split(": ")[0] for mistake in caught.value.mistakes] == [
        "there is no option 'sasl_mechanisn'; did you mean sasl_mechanism?",
        "tls",
        "'localhost' has no port",
        "connect_timeout",
        "backoff_min",
        "max_response_bytes",
    ]


def test_options_that_were_attempted_are_not_missing() -> None:
    given = {"password": "hunter2", "ca_file": "/ca.pem", "key_file": "/key.pem"}
    attempted = {"sasl_mechanism", "tls", "cert_file"}
    assert NetSettings.parse_given("localhost:1", given, attempted).security.password == "hunter2"
