"""How many wrong passwords are checked."""

from __future__ import annotations

from kshare.web.login_limits import MOST_KEPT, LoginLimits


def test_a_name_is_checked_again_after_a_minute() -> None:
    limits = LoginLimits()
    counts = []
    for second in range(10):
        assert limits.wait_s("a", "anna", second) == 0
        counts.append(limits.on_wrong("a", "anna", second))
    assert counts == list(range(1, 11))
    assert limits.wait_s("a", "anna", 10) == 50
    assert limits.wait_s("a", "ben", 10) == limits.wait_s("b", "anna", 10) == 0
    assert limits.wait_s("a", "anna", 60) == 0
    assert limits.on_wrong("a", "anna", 60) == 1


def test_the_right_password_ends_the_count_of_its_name() -> None:
    limits = LoginLimits()
    for _ in range(9):
        limits.on_wrong("a", "anna", 0)
    limits.on_right("a", "anna")
    assert limits.on_wrong("a", "anna", 1) == 1


def test_an_address_that_tries_many_names_is_limited() -> None:
    limits = LoginLimits()
    for number in range(50):
        assert limits.wait_s("a", f"user {number}", 0) == 0
        limits.on_wrong("a", f"user {number}", 0)
    assert limits.wait_s("a", "anna", 20) == 40
    assert limits.wait_s("b", "anna", 20) == 0


def test_what_is_kept_is_bounded() -> None:
    limits = LoginLimits()
    for number in range(MOST_KEPT + 10):
        limits.on_wrong(f"address {number}", "anna", 0)
    assert len(limits) == MOST_KEPT
