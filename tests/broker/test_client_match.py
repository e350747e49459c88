"""Which clients a client metrics subscription is for."""

from __future__ import annotations

import pytest

from kshare.broker.client_match import parse_match
from kshare.broker.request_error import RequestError
from kshare.broker.settings import listed
from kshare.protocol.error_codes import ErrorCode


def test_patterns_are_read_by_attribute() -> None:
    patterns = parse_match(" client_id = app-.* , client_source_port=9\\d+")
    assert list(patterns) == ["client_id", "client_source_port"]
    assert patterns["client_id"].fullmatch("app-1")
    assert not patterns["client_source_port"].fullmatch("8000")
    assert parse_match("") == {}
    assert listed("a, b,,") == ["a", "b"]


@pytest.mark.parametrize(
    "value", ["client_id", "foo=bar", "client_id=[", r"client_id=(a)\1", "client_id=a,="]
)
def test_invalid_patterns_are_refused_as_by_kafka(value: str) -> None:
    with pytest.raises(RequestError, match="Illegal client matching pattern") as caught:
        parse_match(value)
    assert caught.value.code == ErrorCode.INVALID_CONFIG
