"""Work in threads: a few at a time, and whoever waits too long is told so."""

from __future__ import annotations

import threading

import anyio
import pytest
from starlette.exceptions import HTTPException

from kshare.web.turns import SlowWork

pytestmark = pytest.mark.anyio
_DEADLINE_S = 10.0


async def test_results_and_errors_come_back() -> None:
    work = SlowWork(at_once=1)

    def fail() -> None:
        raise ValueError("broken")

    assert await work.run(lambda: 7) == 7
    with pytest.raises(ValueError, match="broken"):
        await work.run(fail)
    assert await work.run(threading.get_ident) != threading.get_ident()


async def test_others_are_told_to_wait() -> None:
    work = SlowWork(at_once=1, patience_s=0.01)
    began, finish = threading.Event(), threading.Event()

    def slow() -> None:
        began.set()
        finish.wait(_DEADLINE_S)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work.run, slow)
        while not began.is_set():
            await anyio.sleep(0.001)
        try:
            with pytest.raises(HTTPException) as refused:
                await work.run(lambda: None)
        finally:
            finish.set()
    assert refused.value.status_code == 503
    assert "try again" in refused.value.detail
    assert await work.run(lambda: "free") == "free"
