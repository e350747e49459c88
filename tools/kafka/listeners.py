"""The listeners of a test broker, their users, and the broker settings for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tools.kafka.certificates import Authority

HOST = "127.0.0.1"
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MODULES = "org.apache.kafka.common.security"


class Listener(StrEnum):
    """A kind of listener. Every broker has PLAINTEXT, which these tools use themselves."""

    PLAINTEXT = "PLAINTEXT"
    DETOURED = "DETOURED"
    """A second plaintext listener, for tests and benchmarks that put a proxy in front of it."""
    TLS = "TLS"
    MUTUAL_TLS = "MUTUAL_TLS"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_TLS = "SASL_TLS"

    @property
    def is_encrypted(self) -> bool:
        return self in (Listener.TLS, Listener.MUTUAL_TLS, Listener.SASL_TLS)

    @property
    def asks_for_a_user(self) -> bool:
        return self in (Listener.SASL_PLAINTEXT, Listener.SASL_TLS)

    @property
    def kafka_protocol(self) -> str:
        """Kafka's name of the security protocol."""
        return _KAFKA_PROTOCOLS[self]


_KAFKA_PROTOCOLS = {
    Listener.PLAINTEXT: "PLAINTEXT",
    Listener.DETOURED: "PLAINTEXT",
    Listener.TLS: "SSL",
    Listener.MUTUAL_TLS: "SSL",
    Listener.SASL_PLAINTEXT: "SASL_PLAINTEXT",
    Listener.SASL_TLS: "SASL_SSL",
}


@dataclass(frozen=True, slots=True)
class User:
    """A user that every SASL listener accepts, with any of SASL_MECHANISMS."""

    name: str
    password: str


USERS = (User("alice", "alice-secret"), User("bob", "bob's s=cret"))


def listener_settings(
    ports: Mapping[Listener, int],
    advertised: Mapping[Listener, int],
    controller_port: int,
    authority: Authority,
) -> dict[str, str]:
    """The settings for one node's listeners. `advertised` has ports that differ from where the node listens."""
    open_at = [f"{name}://{HOST}:{port}" for name, port in ports.items()]
    said_at = [f"{name}://{HOST}:{port}" for name, port in {**ports, **advertised}.items()]
    protocols = [f"{name}:{name.kafka_protocol}" for name in ports]
    settings = {
        "listeners": ",".join([*open_at, f"CONTROLLER://{HOST}:{controller_port}"]),
        "advertised.listeners": ",".join(said_at),
        "listener.security.protocol.map": ",".join([*protocols, "CONTROLLER:PLAINTEXT"]),
        "inter.broker.listener.name": Listener.PLAINTEXT,
        "controller.listener.names": "CONTROLLER",
    }
    if any(name.is_encrypted for name in ports):
        settings |= _tls_settings(authority)
    if Listener.MUTUAL_TLS in ports:
        settings["listener.name.mutual_tls.ssl.client.auth"] = "required"
    for name in ports:
        if name.asks_for_a_user:
            settings |= _sasl_settings(f"listener.name.{name.lower()}")
    return settings


def scram_arguments(listeners: Collection[Listener]) -> list[str]:
    """The arguments with which StorageTool creates the SCRAM users."""
    if not any(name.asks_for_a_user for name in listeners):
        return []
    return [
        argument
        for mechanism in SASL_MECHANISMS
        if mechanism.startswith("SCRAM")
        for user in USERS
        for argument in ("--add-scram", f'{mechanism}=[name="{user.name}",password="{user.password}"]')
    ]


def _tls_settings(authority: Authority) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.server().both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
    }


def _sasl_settings(prefix: str) -> dict[str, str]:
    users = " ".join(f'user_{user.name}="{user.password}"' for user in USERS)
    settings = {
        f"{prefix}.sasl.enabled.mechanisms": ",".join(SASL_MECHANISMS),
        f"{prefix}.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required {users};",
    }
    for mechanism in SASL_MECHANISMS[1:]:
        settings[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = (
            f"{_MODULES}.scram.ScramLoginModule required;"
        )
    return settings
