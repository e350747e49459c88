"""What a thread's error keeps alive: nothing but what it says."""

from __future__ import annotations

import gc
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

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
    assert await in_thread(lambda: 7) == 7


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
    assert [reference() for reference in kept] == [None, None]


async def test_what_failed_work_was_given_is_not_kept() -> None:
    large = Large()
    kept = weakref.ref(large)

    def work(one: Large) -> None:
        raise ValueError(str(one))

    async def ask(work: Callable[[], None]) -> None:
        with suppress(ValueError):
            await in_thread(work)
            raise AssertionError

    await ask(partial(work, large))
    del large
    assert kept() is None
