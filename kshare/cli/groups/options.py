"""Commands of `kshare groups` and their options."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from kshare.cli.cluster.options import Json, Properties, Server
from kshare.cli.terminal.command_group import command_group

groups = command_group("Share groups: which there are, where they stand, what is set for them.")
config = command_group("Settings of a share group.")
groups.add_typer(config, name="config")

Group: TypeAlias = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]
Execute: TypeAlias = Annotated[
    bool | None,
    typer.Option("--execute/--dry-run", help="Do it, or only show what would be done (the default)."),
]


@groups.command("list")
def list_(
    server: Server = None,
    properties: Properties = None,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Only groups in this state: Stable, Empty."),
    ] = None,
    every_type: Annotated[
        bool, typer.Option("--all-types", help="Groups of plain consumers and of streams, too.")
    ] = False,
    is_json: Json = False,
) -> None:
    """Name, type and state of every share group."""
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.groups import view

    view.show_list(Cluster(server, properties), state or [], every_type, is_json)


@groups.command("describe")
def describe(
    names: Annotated[list[str] | None, typer.Argument(metavar="GROUP", help="All, if none is named.")] = None,
    server: Server = None,
    properties: Properties = None,
    offsets: Annotated[bool, typer.Option("--offsets", help="Start offsets and lag (the default).")] = False,
    members: Annotated[bool, typer.Option("--members", help="Who is in it, and what is assigned.")] = False,
    state: Annotated[bool, typer.Option("--state", help="State, coordinator, epochs.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Leaders' epochs, racks, subscriptions, addresses as well.")
    ] = False,
    is_json: Json = False,
) -> None:
    """Offsets with lag, members, states."""
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.groups import view

    chosen = [name for name, is_on in (("state", state), ("members", members), ("offsets", offsets)) if is_on]
    view.show_groups(Cluster(server, properties), names or [], chosen or ["offsets"], verbose, is_json)


@groups.command("reset-offsets")
def reset_offsets(
    group: Group,
    server: Server = None,
    properties: Properties = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC[:PARTITION,...]", help="Which; without it all that the group has read."),
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To what comes next.")] = False,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="To the first record from then on: 2026-01-31T12:00:00, UTC if no zone."
        ),
    ] = None,
    to_offset: Annotated[
        int | None, typer.Option(metavar="OFFSET", help="To this offset in each partition.")
    ] = None,
    execute: Execute = None,
    is_json: Json = False,
) -> None:
    """Have a group without members go on somewhere else."""
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.groups import change
    from kshare.cli.terminal.arguments import chosen_topics

    to = change.point(to_earliest, to_latest, to_datetime, to_offset)
    chosen = chosen_topics(topic or [])
    change.reset_offsets(Cluster(server, properties), group, to, chosen, not execute, is_json)


@groups.command("delete-offsets")
def delete_offsets(
    group: Group,
    topic: Annotated[
        list[str], typer.Option(metavar="TOPIC", help="Which topic; may be given several times.")
    ],
    server: Server = None,
    properties: Properties = None,
    is_json: Json = False,
) -> None:
    """Have a group without members forget topics."""
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.groups import change

    change.delete_offsets(Cluster(server, properties), group, topic, is_json)


@groups.command("delete")
def delete(
    names: Annotated[list[str], typer.Argument(metavar="GROUP", help="Which to delete.")],
    server: Server = None,
    properties: Properties = None,
    is_json: Json = False,
) -> None:
    """Delete groups without members."""
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.groups import change

    change.delete(Cluster(server, properties), names, is_json)


@config.command("show")
def show_config(
    group: Group, server: Server = None, properties: Properties = None, is_json: Json = False
) -> None:
    """What holds, who set it, and within which bounds."""
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.groups import view

    view.show_config(Cluster(server, properties), group, is_json)


@config.command("set")
def set_config(
    group: Group,
    settings: Annotated[list[str], typer.Argument(metavar="NAME=VALUE", help="What to set.")],
    server: Server = None,
    properties: Properties = None,
    is_json: Json = False,
) -> None:
    """Set what holds: share.auto.offset.reset=earliest."""
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.groups import change
    from kshare.cli.terminal import arguments

    changes = arguments.settings(settings)
    change.change_config(Cluster(server, properties), group, changes, is_json)


@config.command("unset")
def unset_config(
    group: Group,
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="What to unset.")],
    server: Server = None,
    properties: Properties = None,
    is_json: Json = False,
) -> None:
    """Back to what brokers have for all groups."""
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.groups import change

    change.change_config(Cluster(server, properties), group, dict.fromkeys(names), is_json)
