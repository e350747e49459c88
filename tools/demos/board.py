"""Draws the state of the scenario in the terminal. Decides colours and symbols."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tools.demos.scenario import (
    DEAD,
    DEAD_LETTERS,
    DONE,
    GROUP,
    NAMES,
    PARTITIONS,
    PER_PARTITION,
    TOPIC,
    UNSEEN,
    WAITING,
    Cell,
    Scene,
)

_COLOURS = dict(zip(NAMES, ("bright_cyan", "bright_magenta", "bright_yellow", "bright_blue"), strict=True))
_SIGNS = {UNSEEN: ("·", "bright_black"), DONE: ("■", "green"), DEAD: ("✗", "bold red")}


def draw(scene: Scene, seconds: float) -> RenderableType:
    return Panel(
        Group(_records(scene), Text(), _workers(scene), Text(), _progress(scene), _legend()),
        title=f"[bold]topic [cyan]{TOPIC}[/], share group [cyan]{GROUP}[/]",
        subtitle=f"{seconds:4.1f} s, an embedded Kafka broker in this process",
        width=80,
    )


def _records(scene: Scene) -> Table:
    table = Table.grid(padding=(0, 1))
    for index, row in enumerate(scene.cells):
        line = Text()
        for cell in row:
            line.append(*_sign(cell))
        table.add_row(f"partition {index}", line)
    return table


def _sign(cell: Cell) -> tuple[str, str]:
    if cell.state in _COLOURS:
        letter = cell.state[0]
        return letter.upper() if cell.deliveries > 1 else letter, f"bold {_COLOURS[cell.state]}"
    if cell.state == WAITING:
        return str(cell.deliveries), "yellow"
    return _SIGNS.get(cell.state, ("?", "white"))


def _workers(scene: Scene) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bright_black")
    for title in ("consumer", "holds", "accepted", "released", "rejected", ""):
        table.add_column(title, justify="left" if title in ("consumer", "") else "right")
    for worker in scene.workers.values():
        held = sum(cell.state == worker.name for row in scene.cells for cell in row)
        table.add_row(
            Text(worker.name, _COLOURS[worker.name]),
            str(held),
            str(worker.accepted),
            str(worker.released),
            str(worker.rejected),
            "lost its connection" if worker.crashes else "",
        )
    return table


def _progress(scene: Scene) -> Table:
    total = PARTITIONS * PER_PARTITION
    table = Table.grid(padding=(0, 1))
    table.add_row("settled", ProgressBar(total, scene.settled, width=50), f"{scene.settled} of {total}")
    letters = Text(", ".join(dict.fromkeys(scene.dead_letters)) or "none yet", "red")
    letters.truncate(50, overflow="ellipsis")
    table.add_row("dead letters", letters, str(len(scene.dead_letters)))
    return table


def _legend() -> Text:
    """The legend: two lines that explain the symbols, in their colours."""
    legend = Text()
    for line in (
        (
            ("·", "bright_black", "not yet delivered"),
            ("a", "bold bright_cyan", "held by anna"),
            ("A", "bold bright_cyan", "held by anna, redelivered"),
        ),
        (
            ("■", "green", "accepted"),
            ("1", "yellow", "released after so many deliveries"),
            ("✗", "bold red", "archived: a dead letter"),
        ),
    ):
        legend.append("\n")
        for sign, style, meaning in line:
            legend.append(sign, style)
            legend.append(f" {meaning}   ", "bright_black")
    return legend


def summary(scene: Scene, seconds: float) -> str:
    """The summary at the end."""
    workers = scene.workers.values()
    done = sum(cell.state == DONE for row in scene.cells for cell in row)
    releases = sum(worker.released for worker in workers)
    return (
        f"{done} orders accepted by {len(scene.workers)} consumers in "
        f"{seconds:.1f} s; "
        f"{releases} releases, after which orders were redelivered until they were accepted or reached the limit; "
        "carl's connection broke, and nothing was lost; "
        f"{len(scene.dead_letters)} dead letters in {DEAD_LETTERS}."
    )
