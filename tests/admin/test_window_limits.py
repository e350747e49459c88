"""Limits of in-flight windows."""

from __future__ import annotations

import pytest

from kshare.admin.window_limits import larger_limit


@pytest.mark.parametrize(
    ("span", "limit", "larger"),
    [
        (92, 100, 200),
        (100, 100, 200),
        (2_379, 2_000, 4_400),
        (2_000, 2_000, 4_000),
        (101, 100, 210),
        (3, 4, 7),
    ],
)
def test_a_larger_limit_is_a_round_number(span: int, limit: int, larger: int) -> None:
    assert larger_limit(span, limit) == larger
