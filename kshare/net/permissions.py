"""Missing permissions, and the commands that grant them.

Decides how a right is named and granted in Kafka's terms. The caller knows which rights a request needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from kshare.errors import NotAuthorized
from kshare.net.addresses import format_address
from kshare.net.settings import NetSettings
from kshare.protocol.error_codes import ErrorCode
from kshare.wording import shell_line

ResourceKind = Literal["topic", "group", "cluster", "transactional-id"]

_RESOURCES: dict[int, ResourceKind] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional-id",
}


@dataclass(frozen=True, slots=True)
class Right:
    """An operation, as Kafka calls it (Read, Describe, AlterConfigs), on a resource."""

    operation: str
    resource: ResourceKind
    name: str = ""
    """The topic, group or transactional id; empty for the cluster."""

    def __str__(self) -> str:
        return f"{self.operation} on {f'{self.resource} {self.name}'.strip()}"


def missing_right(code: int, needed: Iterable[Right]) -> Right | None:
    """Which of the needed rights is missing, going by the error code; None for other errors."""
    resource = _RESOURCES.get(code)
    return next((right for right in needed if right.resource == resource), None)


def refusal(code: int, action: str, right: Right, settings: NetSettings) -> NotAuthorized:
    """An error that says who lacks which right, and the command that grants it."""
    lack = f"{principal(settings) or 'this user'} lacks {right}"
    command = grant(right, settings)
    return NotAuthorized(code, action, lack, command, right.operation, right.resource, right.name)


def principal(settings: NetSettings) -> str | None:
    """Our principal as brokers see it; None if they take it from a certificate or token."""
    security = settings.security
    if security.sasl_mechanism is None:
        return None if security.cert_file or not isinstance(security.tls, bool) else "User:ANONYMOUS"
    return f"User:{security.username}" if security.username else None


def grant(right: Right, settings: NetSettings) -> str:
    """The shell command by which an administrator grants the right."""
    words = ["kafka-acls.sh", "--bootstrap-server", format_address(settings.bootstrap[0]), "--add"]
    words += ["--allow-principal", principal(settings) or "User:NAME", "--operation", right.operation]
    words += [f"--{right.resource}", right.name] if right.name else [f"--{right.resource}"]
    return shell_line(words)
