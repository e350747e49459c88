"""Commands of `kshare topics` and their options."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from typer import Argument, Option

from kshare.cli.cluster.options import Json, Properties, Server, cluster_of
from kshare.cli.terminal.command_group import command_group

topics = command_group("List, create and delete topics.")

Names: TypeAlias = Annotated[list[str], Argument(metavar="TOPIC", help="One or more topics.")]


@topics.command("list")
def list_(
    server: Server = None,
    properties: Properties = None,
    internal: Annotated[
        bool, Option("--internal", help="Also Kafka's internal topics, such as __share_group_state.")
    ] = False,
    is_json: Json = False,
) -> None:
    """List topics with their partitions and replicas."""
    from kshare.cli.topics import run

    run.show_list(cluster_of(server, properties), internal, is_json)


@topics.command("create")
def create(
    names: Names,
    server: Server = None,
    properties: Properties = None,
    partitions: Annotated[
        int | None,
        Option(
            "--partitions", "-p", min=1, metavar="N", help="Number of partitions. Default: set by the broker."
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        Option(
            "--replication-factor",
            "-r",
            min=1,
            metavar="N",
            help="Replicas of each partition. Default: set by the broker.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        Option("--config", "-c", metavar="NAME=VALUE", help="A topic config; may be repeated."),
    ] = None,
    is_json: Json = False,
) -> None:
    """Create topics."""
    from kshare.cli.topics import run

    settings = run.settings(config or [])
    run.create(cluster_of(server, properties), names, partitions, replication_factor, settings, is_json)


@topics.command("delete")
def delete(names: Names, server: Server = None, properties: Properties = None, is_json: Json = False) -> None:
    """Delete topics and all their records."""
    from kshare.cli.topics import run

    run.delete(cluster_of(server, properties), names, is_json)
