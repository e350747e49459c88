"""`python -m tools.demos`: runs the scenario, shows it live, and prints a summary at the end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import anyio
from rich.console import Console
from rich.live import Live

from tools.demos import board, scenario

_FRAMES_A_SECOND = 20


async def main() -> None:
    logging.disable(logging.WARNING)  # the scenario breaks a connection on purpose
    console, scene, began = Console(), scenario.Scene(), time.monotonic()
    async with scenario.make_broker() as broker:
        scenario.configure(broker)
        with Live(console=console, auto_refresh=False, transient=False) as live:

            def show() -> None:
                scenario.look(broker, scene)
                live.update(board.draw(scene, time.monotonic() - began), refresh=console.is_terminal)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_repeat, show)
                await scenario.play(broker, scene)
                tasks.cancel_scope.cancel()
            show()
        console.print("\n" + board.summary(scene, time.monotonic() - began))


async def _repeat(show: Callable[[], None]) -> None:
    while True:
        show()
        await anyio.sleep(1 / _FRAMES_A_SECOND)


if __name__ == "__main__":
    anyio.run(main)
