"""What a thread's error keeps alive: nothing but what it says."""

from __future__ import annotations

import gc
import traceback
import weakref
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kshare.net.in_thread import in_thread

pytestmark = pytest.mark.anyio


class Large:
    """Stands for many bytes."""


@pytest.fixture(autouse=True)
def no_garbage_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


async def test_a_result_is_returned() -> None:
    assert await in_thread(divmod, 7, 2) == (3, 1)


async def test_an_error_is_raised_and_its_frames_keep_nothing() -> None:
    kept: list[weakref.ref[Large]] = []

    def fail() -> None:
        large = Large()
        kept.append(weakref.ref(large))
        raise ValueError("first")

    def work() -> None:
        also = Large()
        kept.append(weakref.ref(also))
        try:
            fail()
        except ValueError as error:
            raise KeyError("second") from error

    async def ask() -> str:
        try:
            await in_thread(work)
        except KeyError as error:
            return "".join(traceback.format_exception(error))
        return ""

    told = await ask()
    assert "first" in told
    assert "in fail" in told
    assert "second" in told
    assert [one() for one in kept] == [None, None]


async def test_arguments_of_failed_work_are_not_kept() -> None:
    large = Large()
    kept = weakref.ref(large)

    def work(one: Large) -> None:
        raise ValueError(str(one))

    async def ask(one: Large) -> None:
        with suppress(ValueError):
            await in_thread(work, one)
            raise AssertionError

    await ask(large)
    del large
    assert kept() is None
