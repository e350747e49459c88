"""Commands of `kshare topics` and their options."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from kshare.cli.cluster.options import Json, Properties, Server
from kshare.cli.terminal.command_group import command_group

topics = command_group("Topics: listed, created, deleted.")

Names: TypeAlias = Annotated[list[str], typer.Argument(metavar="TOPIC", help="One or more names.")]


@topics.command("list")
def list_(
    server: Server = None,
    properties: Properties = None,
    internal: Annotated[
        bool, typer.Option("--internal", help="Kafka's own topics, such as __share_group_state, as well.")
    ] = False,
    is_json: Json = False,
) -> None:
    """Name, partitions and replicas of every topic."""
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.topics import run

    run.show_list(Cluster(server, properties), internal, is_json)


@topics.command("create")
def create(
    names: Names,
    server: Server = None,
    properties: Properties = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", min=1, metavar="N", help="How many; the brokers' default without it."
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor", "-r", min=1, metavar="N", help="Likewise, copies of each partition."
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config", "-c", metavar="NAME=VALUE", help="A setting of the topic; may be given several times."
        ),
    ] = None,
    is_json: Json = False,
) -> None:
    """Create topics."""
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.topics import run

    settings = run.settings(config or [])
    run.create(Cluster(server, properties), names, partitions, replication_factor, settings, is_json)


@topics.command("delete")
def delete(names: Names, server: Server = None, properties: Properties = None, is_json: Json = False) -> None:
    """Delete topics, with all of their records."""
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.topics import run

    run.delete(Cluster(server, properties), names, is_json)
