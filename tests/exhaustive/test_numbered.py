"""Numbers of values: equal exactly if the values are."""

from __future__ import annotations

from collections.abc import Hashable

from hypothesis import given
from hypothesis import strategies as st

from tests.exhaustive.numbered import Numbered

_VALUES: st.SearchStrategy[Hashable] = st.recursive(
    st.none() | st.integers(-2, 2) | st.sampled_from(["", "a", "ab", b"a", 0.5]),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(_VALUES, min_size=2, max_size=8))
def test_two_values_have_one_number_if_they_are_equal(values: list[Hashable]) -> None:
    numbered = Numbered()
    numbers = [numbered.number_of(value) for value in values]
    for value, number in zip(values, numbers, strict=True):
        assert [other == value for other in values] == [other == number for other in numbers]
