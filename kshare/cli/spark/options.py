"""Commands of `kshare spark` and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from typer import Argument, Option

from kshare.cli.cluster.options import Json, Properties, Server, cluster_of
from kshare.cli.terminal.command_group import command_group

spark = command_group('Tools for Spark queries with format("kshare").')
journal = command_group(
    "Show the journals of queries with settle=journal, and write back their staged records."
)
spark.add_typer(journal, name="journal", short_help="Show journals, and write back their staged records.")

Folder: TypeAlias = Annotated[
    Path | None,
    Option("--folder", metavar="PATH", help="The journal is in this folder (journalFolder), not in a topic."),
]


@journal.command("inspect")
def inspect(
    topics: Annotated[
        list[str] | None,
        Argument(metavar="TOPIC", help="Journal topics. Default: all that begin with kshare-journal-."),
    ] = None,
    server: Server = None,
    properties: Properties = None,
    folder: Folder = None,
    is_json: Json = False,
) -> None:
    """Show how many records are staged in journals, of which partitions and since when. Changes nothing."""
    from kshare.cli.spark import run

    run.inspect(cluster_of(server, properties), topics or [], folder, is_json)


@journal.command("return", short_help="Write staged records to their topics again.")
def return_(
    topic: Annotated[
        str | None, Argument(metavar="[TOPIC]", help="The journal's topic, unless --folder is given.")
    ] = None,
    server: Server = None,
    properties: Properties = None,
    folder: Folder = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be written.")] = False,
    is_json: Json = False,
) -> None:
    """Write the staged records of a query that won't be started again to their topics and partitions again.

    They were accepted, so the group doesn't deliver them again. Their copies have new offsets. Can be interrupted
    and run again: records written just before the interruption may be written twice.
    """
    from kshare.cli.spark import run

    run.write_back(cluster_of(server, properties), topic, folder, dry_run, is_json)
