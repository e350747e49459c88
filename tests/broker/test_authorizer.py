"""Access rules: which allow, which deny, which rights a right implies, and how rules are found and stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshare.broker.authorizer import AclFilter, AclResource, AclRule, Authorizer, Operation
from kshare.broker.configs import Configs
from kshare.broker.start_checks import AUTHORIZER
from kshare.testing import Broker

LITERAL, PREFIXED, ANY, MATCH = 3, 4, 1, 2
DENY, ALLOW = 2, 3
ASKED = {"authorizer.class.name": AUTHORIZER, "super.users": "User:root; User:admin"}


def rule(
    name: str = "orders",
    operation: Operation = Operation.READ,
    *,
    pattern: int = LITERAL,
    principal: str = "User:bob",
    host: str = "*",
    permission: int = ALLOW,
) -> AclRule:
    return AclRule(AclResource.TOPIC, name, pattern, principal, host, operation, permission)


def is_authorized(rules: list[AclRule], name: str = "orders", operation: Operation = Operation.READ) -> bool:
    authorizer = Authorizer(Configs(ASKED))
    for each in rules:
        authorizer.add(each)
    return authorizer.is_authorized("User:bob", "10.0.0.1", operation, AclResource.TOPIC, name)


def test_everything_is_allowed_without_an_authorizer() -> None:
    assert Authorizer(Configs()).is_authorized("User:bob", "h", Operation.READ, AclResource.TOPIC, "orders")


@pytest.mark.parametrize("user", ["User:root", "User:admin"])
def test_super_users_may_do_everything(user: str) -> None:
    authorizer = Authorizer(Configs(ASKED))
    authorizer.add(rule(principal=user, permission=DENY))
    assert authorizer.is_authorized(user, "h", Operation.READ, AclResource.TOPIC, "orders")
    assert not authorizer.is_authorized("User:rooty", "h", Operation.READ, AclResource.TOPIC, "orders")


@pytest.mark.parametrize(
    ("rules", "is_allowed"),
    [
        ([], False),
        ([rule()], True),
        ([rule("others")], False),
        ([rule("ord")], False),
        ([rule("ord", pattern=PREFIXED)], True),
        ([rule("*")], True),
        ([rule(principal="User:*")], True),
        ([rule(principal="User:eve")], False),
        ([rule(host="10.0.0.1")], True),
        ([rule(host="10.0.0.2")], False),
        ([rule(operation=Operation.ALL)], True),
        ([rule(operation=Operation.WRITE)], False),
        ([rule(), rule("ord", pattern=PREFIXED, permission=DENY)], False),
        ([rule(), rule(operation=Operation.WRITE, permission=DENY)], True),
    ],
)
def test_rules(rules: list[AclRule], is_allowed: bool) -> None:
    assert is_authorized(rules) is is_allowed


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_other_operations_imply_describe(operation: Operation) -> None:
    assert is_authorized([rule(operation=operation)], operation=Operation.DESCRIBE)
    assert not is_authorized([rule(operation=Operation.DESCRIBE)], operation=operation)


@pytest.mark.parametrize(
    ("name", "pattern", "found"),
    [
        (None, ANY, 3),
        (None, PREFIXED, 1),
        ("orders", LITERAL, 1),
        ("orders", ANY, 1),
        ("orders", MATCH, 3),
        ("ord", MATCH, 2),
        ("nothing", LITERAL, 0),
    ],
)
def test_filters(name: str | None, pattern: int, found: int) -> None:
    authorizer = Authorizer(Configs(ASKED))
    for each in (rule(), rule("ord", pattern=PREFIXED), rule("*")):
        authorizer.add(each)
    chosen = AclFilter(AclResource.TOPIC, name, pattern, None, None, ANY, ANY)
    assert len(authorizer.chosen(chosen)) == found
    assert len(authorizer.remove(chosen)) == found
    assert len(authorizer.rules) == 3 - found


def test_rules_are_stored_in_the_data_directory(tmp_path: Path) -> None:
    with Broker(settings=ASKED, data_dir=tmp_path) as broker:
        broker.call(lambda: broker.state.authorizer.add(rule()))
    with Broker(settings=ASKED, data_dir=tmp_path) as broker:
        assert broker.call(lambda: list(broker.state.authorizer.rules)) == [rule()]
