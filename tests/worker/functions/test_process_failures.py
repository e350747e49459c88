"""Exceptions of other processes keep their class, or the nearest base of it that is known here."""

from __future__ import annotations

import pytest

from kshare.worker.functions.process_failures import failure_as_bytes, failure_from_bytes


class OutOfStock(Exception):
    pass


class Detailed(OutOfStock):
    def __init__(self, order: int, why: str) -> None:
        super().__init__(f"{order}: {why}")


class Holding(OutOfStock):
    def __init__(self, held: object) -> None:
        super().__init__("holds something")
        self.held = held


class Silent(Exception):
    def __str__(self) -> str:
        raise ValueError


def test_what_can_be_pickled_arrives_as_it_is() -> None:
    error = KeyError("x", 1)
    again = failure_from_bytes(failure_as_bytes(error))
    assert (type(again), again.args) == (KeyError, ("x", 1))


@pytest.mark.parametrize("error", [Detailed(7, "sold"), Holding(lambda: 0)])
def test_what_cannot_be_made_again_keeps_its_class_and_its_message(error: Exception) -> None:
    again = failure_from_bytes(failure_as_bytes(error))
    assert (type(again), str(again)) == (type(error), str(error))


def test_an_unknown_class_becomes_the_nearest_known_base() -> None:
    class Local(OutOfStock):
        pass

    again = failure_from_bytes(failure_as_bytes(Local("7")))
    assert type(again) is OutOfStock
    assert str(again).endswith("Local: 7")


def test_an_exception_without_a_message() -> None:
    again = failure_from_bytes(failure_as_bytes(Silent()))
    assert isinstance(again, Silent)
