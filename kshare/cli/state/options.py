"""Options of `kshare state`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from kshare.cli.cluster.options import Properties, Server, cluster_of


def state(
    group: Annotated[str | None, Argument(metavar="GROUP", help="Share group. Default: all.")] = None,
    server: Server = None,
    properties: Properties = None,
    topic: Annotated[
        list[str] | None,
        Option("--topic", "-t", metavar="TOPIC[:PARTITION,...]", help="Only these topics or partitions."),
    ] = None,
    files: Annotated[
        list[Path] | None,
        Option(
            "--file", metavar="FILE", help="Read log segments of __share_group_state instead of a cluster."
        ),
    ] = None,
    is_detailed: Annotated[
        bool, Option("--verbose", "-v", help="Show every offset range, and epochs.")
    ] = False,
    is_history: Annotated[bool, Option("--history", help="Show each record of the topic in order.")] = False,
    is_live: Annotated[bool, Option("--follow", "-f", help="Keep watching for changes.")] = False,
    is_json: Annotated[
        bool, Option("--json", help="Print JSON, one object per line with --history and --follow.")
    ] = False,
) -> None:
    """Show the stored state of share-partitions, read from __share_group_state."""
    from kshare.cli.state import run
    from kshare.cli.terminal.arguments import chosen_topics

    wanted = run.StateOptions(group, chosen_topics(topic or []), is_detailed, is_history, is_live, is_json)
    if files:
        run.show_files(files, wanted)
    else:
        run.show_cluster(cluster_of(server, properties), wanted)
