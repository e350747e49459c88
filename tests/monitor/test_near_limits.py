"""Groups that are close to a limit, in one line."""

from __future__ import annotations

import pytest

from kshare.monitor.near_limits import near_limits, near_limits_line


@pytest.mark.parametrize(
    ("members", "share", "reasons"),
    [
        (1, None, []),
        (1, 0.69, []),
        (17, 0.1, []),
        (18, 0.1, ["it has 18 of at most 20 members"]),
        (None, 0.85, ["its oldest unsettled record has reached 85% of the retention"]),
        (
            20,
            1.2,
            [
                "its oldest unsettled record has reached 120% of the retention",
                "it has 20 of at most 20 members",
            ],
        ),
    ],
)
def test_reasons(members: int | None, share: float | None, reasons: list[str]) -> None:
    assert [*near_limits(members, 20, share)] == reasons


def test_one_line() -> None:
    assert near_limits_line([("a", [])]) is None
    assert near_limits_line([("a", []), ("b", ["x", "y"])]) == (
        "close to a limit: b: x and y. kshare doctor --group b has more"
    )
    assert near_limits_line((name, ["x"]) for name in "abcde") == (
        "close to a limit: a: x; b: x; c: x; and 2 more groups. kshare doctor --group NAME has more"
    )
