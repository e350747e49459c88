"""Options of `kshare state`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kshare.cli.cluster.options import Properties, Server


def state(
    group: Annotated[
        str | None, typer.Argument(metavar="GROUP", help="A share group; all, if none is named.")
    ] = None,
    server: Server = None,
    properties: Properties = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC[:PARTITION,...]", help="Only these."),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option("--file", metavar="FILE", help="Log segments of the topic, instead of a cluster."),
    ] = None,
    is_detailed: Annotated[bool, typer.Option("--verbose", "-v", help="Every range, and epochs.")] = False,
    is_history: Annotated[
        bool, typer.Option("--history", help="How it came about: each record of the topic.")
    ] = False,
    is_live: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it changes.")] = False,
    is_json: Annotated[
        bool, typer.Option("--json", help="JSON; a line each with --history and --follow.")
    ] = False,
) -> None:
    """What brokers have stored of share-partitions, out of __share_group_state."""
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.state import run
    from kshare.cli.terminal.arguments import chosen_topics

    wanted = run.Wanted(group, chosen_topics(topic or []), is_detailed, is_history, is_live, is_json)
    if files:
        run.show_files(files, wanted)
    else:
        run.show_cluster(Cluster(server, properties), wanted)
