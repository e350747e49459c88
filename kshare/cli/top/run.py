"""Runs `kshare top`: reads repeatedly, and shows the figures once, as JSON, or on a live screen."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import anyio
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from kshare.admin.routing import Router
from kshare.cli.cluster.connection import Cluster
from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.keyboard import key_by_key, keys
from kshare.cli.terminal.screen import Screen
from kshare.cli.top.screen_view import TopScreen, notes_height
from kshare.errors import KshareError
from kshare.monitor.collect import Collector
from kshare.monitor.figures import Figures, TableView, figures
from kshare.net.addresses import format_address

_PLAIN_WIDTH = 1000
_LOOK_S = 0.25
"""How often the size of the terminal window is checked."""


def run_top(
    cluster: Cluster,
    groups: Sequence[str],
    view: TableView,
    sort: str | None,
    interval: float,
    is_once: bool,
    is_json: bool,
) -> None:
    board = TopScreen(format_address(cluster.settings.bootstrap[0]), view, sort, interval)
    is_live = sys.stdin.isatty() and sys.stdout.isatty() and not is_once and not is_json

    async def work(router: Router) -> None:
        collector = Collector(router, groups)
        if is_live:
            await _live(collector, board, interval)
        elif is_once or not is_json:
            await _once(collector, board, interval, is_json)
        else:
            await _stream(collector, interval)

    cluster.run_routed(work)


async def _once(collector: Collector, board: TopScreen, interval: float, is_json: bool) -> None:
    """Show one update. It needs two readings, for the rates."""
    before = await collector.read()
    await anyio.sleep(interval)
    now = await collector.read()
    found = figures(now, before)
    screen = Screen()
    if is_json:
        screen.text(json.dumps(_form(found), indent=2) + "\n")
    else:
        width = _PLAIN_WIDTH if screen.is_plain else screen.width
        height = len(found.rows[board.view]) + 4 + notes_height(found, width)
        head, *body, _ = board.lines(found, width, height)
        for line in (head, *body):
            text = "".join(part for part, _ in line).rstrip()
            if text:
                screen.line(" ".join(text.split()) if line is head else text)
    screen.done()
    if now.missing:
        raise Failure("; ".join(now.missing))


async def _stream(collector: Collector, interval: float) -> None:
    """Print one line of JSON for each reading."""
    screen, before = Screen(), None
    while True:
        now = await collector.read()
        screen.text(json.dumps(_form(figures(now, before))) + "\n")
        screen.done()
        before = now
        await anyio.sleep(interval)


async def _live(collector: Collector, board: TopScreen, interval: float) -> None:
    """Runs until the user quits. Shows when the cluster doesn't respond, and retries."""
    console = Console(highlight=False, markup=False, emoji=False)
    before, now = None, await collector.read()
    shown, problem = figures(now, None), None
    with key_by_key(), Live(console=console, screen=True, auto_refresh=False) as live:

        def draw() -> None:
            lines = board.lines(shown, console.width, console.height, problem)
            live.update(Group(*(Text.assemble(*line, no_wrap=True) for line in lines)), refresh=True)

        async def listen() -> None:
            async for key in keys():
                board.press(key)
                draw()
                if board.is_over:
                    break
            tasks.cancel_scope.cancel()

        async def mind_the_size() -> None:
            size = console.size
            while True:
                await anyio.sleep(_LOOK_S)
                if console.size != size:
                    size = console.size
                    draw()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            tasks.start_soon(mind_the_size)
            draw()
            while True:
                await anyio.sleep(interval)
                if board.is_held:
                    continue
                try:
                    before, now = now, await collector.read()
                except KshareError as error:
                    problem = str(error)
                else:
                    shown, problem = figures(now, before), None
                draw()


def _form(found: Figures) -> dict[str, object]:
    return {"time": found.time, **{view.value: rows for view, rows in found.rows.items()}}
