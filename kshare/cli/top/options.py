"""Options of `kshare top`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer import Option

from kshare.cli.cluster.options import OnlyGroups, Properties, Server, cluster_of

_LONGEST_INTERVAL_S = 86_400


class TopView(StrEnum):
    """The same as `TableView` in `top.figures`, which takes longer to load."""

    GROUPS = "groups"
    PARTITIONS = "partitions"
    MEMBERS = "members"


def top(
    server: Server = None,
    properties: Properties = None,
    group: OnlyGroups = None,
    view: Annotated[TopView, Option(help="View to start with.")] = TopView.GROUPS,
    sort: Annotated[
        str | None, Option(metavar="COLUMN", help="Column to sort by, such as lag or oldest.")
    ] = None,
    interval: Annotated[float, Option(min=0.1, metavar="SECONDS", help="Time between updates.")] = 2.0,
    once: Annotated[bool, Option("--once", help="Show one update, after one interval, and exit.")] = False,
    is_json: Annotated[bool, Option("--json", help="Print JSON, one line per update.")] = False,
) -> None:
    """Watch the lag, redeliveries, rates and oldest record of share groups, by group, partition or member.

    Press ? on the live screen for an explanation of columns and keys.
    """
    from kshare.cli.top.run import run_top
    from kshare.monitor.figures import COLUMNS, TableView

    chosen = TableView(view.value)
    columns = {column.head.lower(): column.name for column in COLUMNS[chosen]}
    if sort is not None and sort.lower() not in columns:
        raise typer.BadParameter(f"--sort {sort}: the columns are {', '.join(columns)}")
    if interval > _LONGEST_INTERVAL_S:
        raise typer.BadParameter(f"--interval {interval:g}: at most a day ({_LONGEST_INTERVAL_S} seconds)")
    by = columns[sort.lower()] if sort else None
    run_top(cluster_of(server, properties), group or [], chosen, by, interval, once, is_json)
