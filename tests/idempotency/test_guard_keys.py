"""Keys: which calls count as the same."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.errors import ConfigError
from kshare.idempotency.guard import coordinates, store_key

RECORD = SimpleNamespace(topic="orders", partition=3, offset=17)
Call = tuple[str, bytes]
CALLS = st.tuples(st.text(st.characters(codec="utf-8")), st.binary(min_size=1))


@pytest.mark.lengthy
@given(CALLS, CALLS)
def test_different_functions_or_identities_have_different_keys(one: Call, other: Call) -> None:
    assert (store_key(*one) == store_key(*other)) == (one == other)


@given(st.text(min_size=1))
def test_any_string_is_a_key(identity: str) -> None:
    assert store_key("f", identity) == store_key("f", identity.encode("utf-8", "surrogatepass"))


def test_keys_fit_into_any_database() -> None:
    key = store_key("f", "ü" * 1000)
    assert len(key) == 64
    assert set(key) <= set("0123456789abcdef")


@pytest.mark.parametrize(("wrong", "named"), [(None, "NoneType"), (7, "int"), ("", "empty"), (b"", "empty")])
def test_other_identities_are_refused(wrong: object, named: str) -> None:
    with pytest.raises(ConfigError, match=rf"f: key= must return a string or bytes.*{named}"):
        store_key("f", wrong)


def test_the_first_argument_with_coordinates_counts() -> None:
    batch = SimpleNamespace(topic="orders", partition=3)
    assert coordinates("f", [b"payload", batch, RECORD]) == "orders/3/17"


def test_missing_coordinates_are_explained() -> None:
    with pytest.raises(
        ConfigError, match=r"f: no argument has a topic, a partition and an offset.*Pass key="
    ):
        coordinates("f", [b"payload"])
