"""The background task of a client has an owner at all times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
import pytest

from kshare.client.background import Background


@pytest.mark.anyio
async def test_a_cancelled_start_ends_it_although_it_has_started() -> None:
    """`async with` doesn't call `__aexit__` then: a consumer stayed in its group, with nobody to close it."""
    did: list[str] = []
    scope = anyio.CancelScope()

    async def run(on_started: Callable[[], None], stopping: anyio.Event) -> None:
        on_started()
        scope.cancel()
        await stopping.wait()
        await anyio.sleep(0.01)
        did.append("closed")

    background = Background(run, lambda: did.append("ended"))
    has_entered = False
    with anyio.fail_after(5), scope:
        await background.start()
        has_entered = True
    if has_entered:  # then its owner closes it, cancelled or not
        background.stop()
        await background.join()
    assert background.is_over
    assert did == ["closed", "ended"]


def test_a_task_that_is_cancelled_while_it_starts_it_ends_it() -> None:
    async def main() -> tuple[bool, bool]:
        async def run(on_started: Callable[[], None], stopping: anyio.Event) -> None:
            on_started()
            opening.cancel()
            await stopping.wait()

        background = Background(run, lambda: None)
        opening = asyncio.create_task(background.start())
        await asyncio.wait([opening])
        is_over = background.is_over
        background.stop()
        await background.join()
        return opening.cancelled(), is_over

    assert asyncio.run(main()) == (True, True)
