"""Translates Kafka's own option names into ours: those of Java, librdkafka and other Python clients.

An option without a counterpart raises an error that says what to write instead (`kshare.options.refusals`). Values are
checked only as far as their translation needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kshare.errors import ConfigError
from kshare.options.mistakes import located
from kshare.options.refusals import Taker, why_refused
from kshare.options.unknown import no_option

Given = Mapping[str, Any]
Translate = Callable[[Any, Given], dict[str, Any]]
"""Turns a value into options of ours. The second argument has all options that were passed."""

_LOGIN = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')
_PASSWORD_MODULES = ("PlainLoginModule", "ScramLoginModule")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def parse_option(
    name: str,
    value: Any,
    given: Given,
    ours: Sequence[str],
    others: Sequence[str] = (),
    taker: Taker = "consumer",
) -> dict[str, Any]:
    """Translate one option into our names. For unknown names, the error suggests one of `ours`, never of `others`."""
    if name in ours or name in others:
        return {name: value}
    if refused := why_refused(name, taker):
        raise ConfigError(refused)
    kafkas = dotted(name)
    if kafkas not in KAFKA_NAMES:
        raise ConfigError(no_option(name, [*ours, *KAFKA_NAMES]))
    with located(name):
        return KAFKA_NAMES[kafkas](value, given)


def dotted(name: str) -> str:
    """Kafka's spelling of this name: kafka-python writes underscores."""
    return name.replace("_", ".")


# --- translations of values


def _same(option: str) -> Translate:
    return lambda value, _: {option: value}


def _number(option: str) -> Translate:
    return lambda value, _: {option: _whole(value)}


def _seconds(option: str) -> Translate:
    """Kafka's durations are in milliseconds, and often strings."""
    return lambda value, _: {option: _whole(value) / 1000}


def _chosen(option: str, **ours: str) -> Translate:
    return lambda value, _: {option: ours.get(value, value) if isinstance(value, str) else value}


def _whole(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):  # the last one is for infinity
        raise ConfigError(f"{value!r} isn't a whole number") from None


def _is_true(value: Any) -> bool:
    if str(value).lower() not in ("true", "false"):
        raise ConfigError(f"must be true or false, not {value!r}")
    return str(value).lower() == "true"


def _protocol(value: Any, given: Given) -> dict[str, Any]:
    protocol = str(value).upper()
    if protocol not in _PROTOCOLS:
        raise ConfigError(f"must be one of {', '.join(_PROTOCOLS)}, not {value!r}")
    mechanism = [name for name in ("sasl.mechanism", "sasl.mechanisms", "sasl_mechanism") if name in given]
    if protocol.startswith("SASL_") and not mechanism:
        raise ConfigError(f'{protocol} needs a SASL mechanism: add sasl_mechanism="PLAIN", or another')
    if not protocol.startswith("SASL_") and mechanism:
        right = "SASL_SSL" if protocol == "SSL" else "SASL_PLAINTEXT"
        raise ConfigError(
            f"{protocol} doesn't use SASL, but {mechanism[0]} is given: write {right} or leave it out"
        )
    # aiokafka needs both a protocol and a context, which says more than True.
    context = [name for name in ("ssl.context", "ssl_context") if given.get(name) is not None]
    if context and not protocol.endswith("SSL"):
        right = "SASL_SSL" if protocol.startswith("SASL_") else "SSL"
        raise ConfigError(
            f"{protocol} doesn't use TLS, but {context[0]} is given: write {right} or leave it out"
        )
    return {"tls": True} if protocol.endswith("SSL") and not context else {}


def _context(value: Any, _: Given) -> dict[str, Any]:
    return {} if value is None else {"tls": value}


def _login(value: Any, _: Given) -> dict[str, Any]:
    """Java's single line for everything that SASL needs. Errors never quote it, because it contains the password."""
    if not any(module in str(value) for module in _PASSWORD_MODULES):
        raise ConfigError(
            "only PlainLoginModule and ScramLoginModule are understood; for OAUTHBEARER write token=<a function>, "
            "for GSSAPI get a ticket by kinit"
        )
    credentials = {
        key: re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
        for key, quoted, plain in _LOGIN.findall(str(value))
    }
    missing = [key for key in ("username", "password") if key not in credentials]
    if missing:
        raise ConfigError(f"there is no {missing[0]} in it")
    return {"username": credentials["username"], "password": credentials["password"]}


def _store(option: str, kind: str) -> Translate:
    """Java's key stores: PEM files are read, others have to be converted."""

    def turn(value: Any, given: Given) -> dict[str, Any]:
        is_pem = str(given.get(f"ssl.{kind}.type", "")).upper() == "PEM"
        if not is_pem and not str(value).endswith((".pem", ".crt", ".cer")):
            raise ConfigError(
                f"a Java key store can't be read: convert it to PEM and write {option}=<that file>"
            )
        return {option: value}

    return turn


def _store_type(value: Any, _: Given) -> dict[str, Any]:
    if str(value).upper() != "PEM":
        raise ConfigError(f"{value} can't be read: convert the store to PEM and write type PEM")
    return {}


def _host_check(value: Any, _: Given) -> dict[str, Any]:
    algorithm = str(value or "none").lower()
    if algorithm not in ("https", "none"):
        raise ConfigError(f"must be https or empty, not {value!r}")
    return {} if algorithm == "https" else {"check_hostname": False}


def _verification(value: Any, _: Given) -> dict[str, Any]:
    if not _is_true(value):
        raise ConfigError("certificates are always checked; to prevent that, write tls=<an ssl.SSLContext>")
    return {}


KAFKA_NAMES: dict[str, Translate] = {
    "bootstrap.servers": _same("bootstrap_servers"),
    "metadata.broker.list": _same("bootstrap_servers"),
    "group.id": _same("group"),
    "share.acknowledgement.mode": _same("acknowledgement"),
    "share.acquire.mode": _chosen("acquire", batch_optimized="batches", record_limit="records"),
    "max.poll.records": _number("max_records"),
    "fetch.max.bytes": _number("max_bytes"),
    "queued.max.messages.kbytes": lambda value, _: {"max_bytes": 1024 * _whole(value)},
    "client.id": _same("client_id"),
    "client.rack": _same("rack"),
    "enable.metrics.push": lambda value, _: {"metrics_push": _is_true(value)},
    "request.timeout.ms": _seconds("request_timeout"),
    "socket.timeout.ms": _seconds("request_timeout"),
    "socket.connection.setup.timeout.ms": _seconds("connect_timeout"),
    "reconnect.backoff.ms": _seconds("backoff_min"),
    "reconnect.backoff.max.ms": _seconds("backoff_max"),
    "receive.message.max.bytes": _number("max_response_bytes"),
    "security.protocol": _protocol,
    "sasl.mechanism": _same("sasl_mechanism"),
    "sasl.mechanisms": _same("sasl_mechanism"),
    "sasl.username": _same("username"),
    "sasl.password": _same("password"),
    "sasl.plain.username": _same("username"),
    "sasl.plain.password": _same("password"),
    "sasl.jaas.config": _login,
    "sasl.kerberos.service.name": _same("kerberos_service_name"),
    "sasl.kerberos.domain.name": _same("kerberos_domain_name"),
    "ssl.ca.location": _same("ca_file"),
    "ssl.cafile": _same("ca_file"),
    "ssl.certificate.location": _same("cert_file"),
    "ssl.certfile": _same("cert_file"),
    "ssl.key.location": _same("key_file"),
    "ssl.keyfile": _same("key_file"),
    "ssl.key.password": _same("key_password"),
    "ssl.password": _same("key_password"),
    "ssl.context": _context,
    "ssl.truststore.location": _store("ca_file", "truststore"),
    "ssl.keystore.location": _store("cert_file", "keystore"),
    "ssl.truststore.type": _store_type,
    "ssl.keystore.type": _store_type,
    "ssl.endpoint.identification.algorithm": _host_check,
    "ssl.check.hostname": lambda value, _: {"check_hostname": _is_true(value)},
    "enable.ssl.certificate.verification": _verification,
}
