"""Kafka's ACLs, as far as share groups and related requests need them.

They are enforced only if the broker's `authorizer.class.name` is set. Then everything that no rule allows is denied, a
rule that denies takes precedence over rules that allow, and `super.users` may do everything. Checked are the APIs of
share groups, heartbeats and descriptions of consumer groups, Metadata, FindCoordinator, Produce and DescribeLogDirs.
Others are always allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from kshare.broker.configs import Configs
from kshare.broker.notifiers import Notifier
from kshare.broker.start_checks import super_users
from kshare.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kshare.protocol.messages import DescribeAclsRequest
    from kshare.protocol.messages.delete_acls_request import DeleteAclsFilter

_ANY, _MATCH, _LITERAL, _PREFIXED = 1, 2, 3, 4
_DENY, _ALLOW = 2, 3
_EVERYBODY, _EVERYTHING = "User:*", "*"


class Operation(IntEnum):
    """An ACL operation, with Kafka's number."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class AclResource(IntEnum):
    """An ACL resource type, with Kafka's number."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4

    @property
    def refusal(self) -> ErrorCode:
        return ErrorCode[f"{self.name}_AUTHORIZATION_FAILED"]

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations that Kafka distinguishes on such a resource."""
        return tuple(Operation[name] for name in _OPERATIONS[self].split())


_OPERATIONS = {
    AclResource.TOPIC: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    AclResource.GROUP: "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    AclResource.CLUSTER: "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE",
}
CLUSTER_NAME = "kafka-cluster"
_IMPLY_DESCRIBE = (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)


@dataclass(slots=True, frozen=True)
class AclRule:
    """One ACL. Fields have the order and the numbers of Kafka's messages."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def is_about(self, principal: str, host: str, on: int, name: str) -> bool:
        return (
            self.resource_type == on
            and self.principal in (principal, _EVERYBODY)
            and self.host in (host, _EVERYTHING)
            and self._covers(name)
        )

    def _covers(self, name: str) -> bool:
        if self.pattern_type == _PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in (name, _EVERYTHING)

    @property
    def is_sound(self) -> bool:
        """Whether it is valid, so that it may be created."""
        is_known = self.pattern_type in (_LITERAL, _PREFIXED) and self.permission_type in (_DENY, _ALLOW)
        return is_known and self.principal.startswith("User:") and bool(self.resource_name)


@dataclass(slots=True, frozen=True)
class AclFilter:
    """Matches rules. None and the numbers for "any" match everything."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    @classmethod
    def of(cls, requested: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
        return cls(
            requested.resource_type_filter,
            requested.resource_name_filter,
            requested.pattern_type_filter,
            requested.principal_filter,
            requested.host_filter,
            requested.operation,
            requested.permission_type,
        )

    def fits(self, rule: AclRule) -> bool:
        return (
            self.resource_type in (_ANY, rule.resource_type)
            and self._fits_name(rule)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (_ANY, rule.operation)
            and self.permission_type in (_ANY, rule.permission_type)
        )

    def _fits_name(self, rule: AclRule) -> bool:
        if self.resource_name is None:
            return self.pattern_type in (_ANY, _MATCH, rule.pattern_type)
        if self.pattern_type == _MATCH:
            return rule._covers(self.resource_name)
        return self.pattern_type in (_ANY, rule.pattern_type) and self.resource_name == rule.resource_name


class Authorizer:
    """Stores all rules, and checks requests against them. `changed` fires after every change."""

    def __init__(self, configs: Configs) -> None:
        self._configs = configs
        self.rules: dict[AclRule, None] = {}
        self.changed = Notifier()

    def add(self, rule: AclRule) -> None:
        self.rules[rule] = None
        self.changed.fire()

    def remove(self, chosen: AclFilter) -> list[AclRule]:
        """Returns the removed rules."""
        removed = self.chosen(chosen)
        for rule in removed:
            del self.rules[rule]
        if removed:
            self.changed.fire()
        return removed

    def chosen(self, chosen: AclFilter) -> list[AclRule]:
        return [rule for rule in self.rules if chosen.fits(rule)]

    @property
    def is_enforced(self) -> bool:
        return bool(self._configs.broker("authorizer.class.name"))

    def is_authorized(
        self, principal: str, host: str, operation: Operation, on: AclResource, name: str
    ) -> bool:
        if not self.is_enforced or principal in super_users(self._configs.broker("super.users")):
            return True
        enough = {Operation.ALL, operation}
        matching = [rule for rule in self.rules if rule.is_about(principal, host, on, name)]
        if any(rule.permission_type == _DENY and rule.operation in enough for rule in matching):
            return False
        if operation is Operation.DESCRIBE:
            enough.update(_IMPLY_DESCRIBE)
        if operation is Operation.DESCRIBE_CONFIGS:
            enough.add(Operation.ALTER_CONFIGS)
        return any(rule.permission_type == _ALLOW and rule.operation in enough for rule in matching)
