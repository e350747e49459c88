"""What is done for many records at once."""

from __future__ import annotations

import anyio
import pytest

from kshare.worker.functions.concurrently import for_each

pytestmark = pytest.mark.anyio


async def test_one_that_takes_long_delays_no_others() -> None:
    done: set[int] = set()
    may_end = anyio.Event()

    async def act(number: int) -> None:
        if number == 3:
            await may_end.wait()
        done.add(number)
        if len(done) == 1999:
            may_end.set()

    with anyio.fail_after(10):
        await for_each([(number,) for number in range(2000)], act)
    assert len(done) == 2000
