"""How many wrong passwords are checked."""

from __future__ import annotations

import tracemalloc

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


def test_long_names_take_no_more_memory() -> None:
    """They took 193 kB each."""
    limits = LoginLimits()
    tracemalloc.start()
    try:
        for number in range(500):
            limits.on_wrong(f"address {number}", f"{number}" + "\N{PILE OF POO}" * 40_000, 0)
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
    assert len(limits) == 1_000


def test_a_name_that_is_not_text_is_counted() -> None:
    limits = LoginLimits()
    assert limits.on_wrong("a", "\udc80", 0) == 1
    assert limits.on_wrong("a", "\udc80", 0) == 2


def test_addresses_of_one_ipv6_network_are_one() -> None:
    limits = LoginLimits()
    for number in range(10):
        limits.on_wrong(f"2001:db8::{number:x}", "anna", 0)
    assert limits.wait_s("2001:db8::ffff%eth0", "anna", 0) == 60
    assert limits.wait_s("2001:db8:0:1::1", "anna", 0) == 0
    limits.on_right("2001:db8::1", "anna")
    assert limits.wait_s("2001:db8::2", "anna", 0) == 0


def test_an_ipv4_address_in_ipv6_is_that_address() -> None:
    limits = LoginLimits()
    for _ in range(10):
        limits.on_wrong("::ffff:10.1.2.3", "anna", 0)
    assert limits.wait_s("10.1.2.3", "anna", 0) == 60
    assert limits.wait_s("::ffff:10.1.2.4", "anna", 0) == 0
