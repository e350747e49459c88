"""Access rules: which allow, which deny, what a right brings with it, and how rules are found again."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshare.broker.configs import Configs
from kshare.broker.rights import On, Operation, Rights, Rule, RuleFilter
from kshare.testing import Broker

LITERAL, PREFIXED, ANY, MATCH = 3, 4, 1, 2
DENY, ALLOW = 2, 3
ASKED = {"authorizer.class.name": "any", "super.users": "User:root;User:admin"}


def rule(
    name: str = "orders",
    operation: Operation = Operation.READ,
    *,
    pattern: int = LITERAL,
    principal: str = "User:bob",
    host: str = "*",
    permission: int = ALLOW,
) -> Rule:
    return Rule(On.TOPIC, name, pattern, principal, host, operation, permission)


def may(rules: list[Rule], name: str = "orders", operation: Operation = Operation.READ) -> bool:
    rights = Rights(Configs(ASKED))
    for each in rules:
        rights.add(each)
    return rights.may("User:bob", "10.0.0.1", operation, On.TOPIC, name)


def test_where_nobody_is_asked_everything_may_be_done() -> None:
    assert Rights(Configs()).may("User:bob", "h", Operation.READ, On.TOPIC, "orders")


@pytest.mark.parametrize("user", ["User:root", "User:admin"])
def test_some_may_do_everything(user: str) -> None:
    rights = Rights(Configs(ASKED))
    rights.add(rule(principal=user, permission=DENY))
    assert rights.may(user, "h", Operation.READ, On.TOPIC, "orders")
    assert not rights.may("User:rooty", "h", Operation.READ, On.TOPIC, "orders")


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
def test_rules(rules: list[Rule], is_allowed: bool) -> None:
    assert may(rules) is is_allowed


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_whoever_may_do_something_may_look(operation: Operation) -> None:
    assert may([rule(operation=operation)], operation=Operation.DESCRIBE)
    assert not may([rule(operation=Operation.DESCRIBE)], operation=operation)


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
    rights = Rights(Configs(ASKED))
    for each in (rule(), rule("ord", pattern=PREFIXED), rule("*")):
        rights.add(each)
    chosen = RuleFilter(On.TOPIC, name, pattern, None, None, ANY, ANY)
    assert len(rights.chosen(chosen)) == found
    assert len(rights.remove(chosen)) == found
    assert len(rights.rules) == 3 - found


def test_a_folder_keeps_them(tmp_path: Path) -> None:
    with Broker(settings=ASKED, data_dir=tmp_path) as broker:
        broker.call(lambda: broker.state.rights.add(rule()))
    with Broker(settings=ASKED, data_dir=tmp_path) as broker:
        assert broker.call(lambda: list(broker.state.rights.rules)) == [rule()]
