"""Kafka's own classes agree with ours on every message in every version, as bytes and JSON, in both directions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from kshare.protocol import by_name
from kshare.protocol.message import Message
from tests.helpers.judge import Case, Judge, JudgeError, open_judge
from tests.helpers.strategies import every_message, messages_of, shapes

pytestmark = pytest.mark.java

_QUICK = settings(
    max_examples=15,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)
_THOROUGH = settings(_QUICK, max_examples=300)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with open_judge() as judge:
        yield judge


@every_message
def test_java_agrees(judge: Judge, name: str) -> None:
    for versions in shapes(name):
        _compare(judge, name, versions[0], _QUICK)


@pytest.mark.long
@every_message
def test_java_agrees_on_many_more_examples(judge: Judge, name: str) -> None:
    for versions in shapes(name):
        _compare(judge, name, versions[0], _THOROUGH)


@every_message
def test_java_agrees_on_default_values_in_every_version(judge: Judge, name: str) -> None:
    """Tagged fields aren't encoded then, so both sides must have the same defaults."""
    fresh = by_name.message_class(name)()
    versions = [version for span in shapes(name) for version in span]
    forms = [Case(name, version, by_name.to_json(fresh, version)) for version in versions]
    datas = [Case(name, version, by_name.encode(fresh, version)) for version in versions]
    assert judge.encode_all(forms) == [case.value for case in datas]
    assert judge.decode_all(datas) == [case.value for case in forms]


def _compare(judge: Judge, name: str, version: int, how_much: settings) -> None:
    @how_much
    @given(messages_of(name, version))
    def check(message: Message) -> None:
        data = by_name.encode(message, version)
        form = by_name.to_json(message, version)
        assert judge.encode(name, version, form) == data
        assert judge.decode(name, version, data) == form

    check()


def test_many_messages_at_once(judge: Judge) -> None:
    """More than the capacity of a pipe, in both directions."""
    name = "ShareGroupDescribeRequest"
    groups = [f"{number}{'g' * 1000}" for number in range(1000)]
    cases = [Case(name, 1, {"groupIds": [group], "includeAuthorizedOperations": True}) for group in groups]
    datas = judge.encode_all(cases)
    assert judge.decode_all([Case(name, 1, data) for data in datas]) == [case.value for case in cases]


@pytest.mark.parametrize(
    ("name", "version", "form", "complaint"),
    [
        ("NoSuchMessage", 0, {}, "no message named NoSuchMessage"),
        ("ShareFetchRequest", 1, {}, "unable to locate field 'groupId'"),
        ("ShareFetchRequest", 1, {"groupId": 7}, "expected a string type"),
        ("ShareFetchRequest", 1, [], "unable to locate field 'groupId'"),
    ],
)
def test_errors_are_raised_and_the_judge_continues(
    judge: Judge, name: str, version: int, form: object, complaint: str
) -> None:
    with pytest.raises(JudgeError, match=complaint):
        judge.encode(name, version, form)
    with pytest.raises(JudgeError):
        judge.decode(name, version, b"\xff")
    assert judge.encode("ResponseHeader", 0, {"correlationId": 1}) == b"\0\0\0\1"
