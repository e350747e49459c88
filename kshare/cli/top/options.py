"""Options of `kshare top`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from kshare.cli.cluster.options import Properties, Server

_LONGEST_INTERVAL_S = 86_400


class What(StrEnum):
    """As in `top.figures`, which takes longer to load."""

    GROUPS = "groups"
    PARTITIONS = "partitions"
    MEMBERS = "members"


def top(
    server: Server = None,
    properties: Properties = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUP", help="Only this group; may be given several times."),
    ] = None,
    view: Annotated[What, typer.Option(help="What to begin with.")] = What.GROUPS,
    sort: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="By which column, as on the board: lag, oldest.")
    ] = None,
    interval: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Between two readings.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Show it once, after one interval, and end.")] = False,
    is_json: Annotated[
        bool, typer.Option("--json", help="JSON; without --once a line each interval.")
    ] = False,
) -> None:
    """Watch share groups: lag, redeliveries, rates, the oldest record, by group, partition and member.

    On the live screen ? explains the columns and the keys.
    """
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.top.figures import COLUMNS, View
    from kshare.cli.top.run import run_top

    chosen = View(view.value)
    columns = {column.head.lower(): column.name for column in COLUMNS[chosen]}
    if sort is not None and sort.lower() not in columns:
        raise typer.BadParameter(f"--sort {sort}: there is {', '.join(columns)}")
    if interval > _LONGEST_INTERVAL_S:
        raise typer.BadParameter(f"--interval {interval:g}: a day ({_LONGEST_INTERVAL_S} seconds) at most")
    by = columns[sort.lower()] if sort else None
    run_top(Cluster(server, properties), group or [], chosen, by, interval, once, is_json)
