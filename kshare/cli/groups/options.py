"""Commands of `kshare groups` and their options."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer
from typer import Argument, Option

from kshare.cli.cluster.options import Json, Properties, Server, cluster_of
from kshare.cli.terminal.command_group import command_group

groups = command_group("List share groups, show and reset their offsets, configure and delete them.")
config = command_group("Show and change the configuration of a share group.")
groups.add_typer(config, name="config")

Group: TypeAlias = Annotated[str, Argument(metavar="GROUP", help="The share group.")]
Execute: TypeAlias = Annotated[
    bool | None, Option("--execute/--dry-run", help="Reset the offsets, or only show the result (default).")
]

_STATES = (
    "Stable",
    "Empty",
    "Dead",
    "Assigning",
    "Reconciling",
    "NotReady",
    "PreparingRebalance",
    "CompletingRebalance",
)
"""Share groups have the first three; with --all-types, the others occur, too."""


@groups.command("list")
def list_(
    server: Server = None,
    properties: Properties = None,
    state: Annotated[
        list[str] | None,
        Option("--state", metavar="STATE", help="Only groups in this state: Stable or Empty."),
    ] = None,
    every_type: Annotated[bool, Option("--all-types", help="Also list consumer and streams groups.")] = False,
    is_json: Json = False,
) -> None:
    """List share groups with type and state."""
    from kshare.cli.groups import view

    states = [_state(name) for name in state or []]
    view.show_list(cluster_of(server, properties), states, every_type, is_json)


def _state(text: str) -> str:
    """The state with this name, as Kafka spells it."""
    for name in _STATES:
        if text.lower() == name.lower():
            return name
    raise typer.BadParameter(f"--state {text}: the states are {', '.join(_STATES)}")


@groups.command("describe")
def describe(
    names: Annotated[list[str] | None, Argument(metavar="GROUP", help="Share groups. Default: all.")] = None,
    server: Server = None,
    properties: Properties = None,
    offsets: Annotated[bool, Option("--offsets", help="Start offsets and lag (the default).")] = False,
    members: Annotated[bool, Option("--members", help="Members and their assignments.")] = False,
    state: Annotated[bool, Option("--state", help="Group state, coordinator and epochs.")] = False,
    verbose: Annotated[
        bool, Option("--verbose", "-v", help="Also show leader epochs, racks, subscriptions and addresses.")
    ] = False,
    is_json: Json = False,
) -> None:
    """Show offsets and lag, members, or the state of share groups."""
    from kshare.cli.groups import view

    chosen = [name for name, is_on in (("state", state), ("members", members), ("offsets", offsets)) if is_on]
    view.show_groups(cluster_of(server, properties), names or [], chosen or ["offsets"], verbose, is_json)


@groups.command("reset-offsets")
def reset_offsets(
    group: Group,
    server: Server = None,
    properties: Properties = None,
    topic: Annotated[
        list[str] | None,
        Option(
            "--topic",
            "-t",
            metavar="TOPIC[:PARTITION,...]",
            help="Which topics or partitions. Default: all that the group has read.",
        ),
    ] = None,
    to_earliest: Annotated[bool, Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, Option("--to-latest", help="To the end: only new records.")] = False,
    to_datetime: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="To the first record at or after this time: 2026-01-31T12:00:00, UTC unless a zone is given.",
        ),
    ] = None,
    to_offset: Annotated[
        int | None, Option(min=0, metavar="OFFSET", help="To this offset in each partition.")
    ] = None,
    execute: Execute = None,
    is_json: Json = False,
) -> None:
    """Reset the start offsets of a group without members."""
    from kshare.cli.groups import change
    from kshare.cli.terminal.arguments import chosen_topics

    to = change.point(to_earliest, to_latest, to_datetime, to_offset)
    chosen = chosen_topics(topic or [])
    change.reset_offsets(cluster_of(server, properties), group, to, chosen, not execute, is_json)


@groups.command("delete-offsets")
def delete_offsets(
    group: Group,
    topic: Annotated[list[str], Option("--topic", "-t", metavar="TOPIC", help="Topic; may be repeated.")],
    server: Server = None,
    properties: Properties = None,
    is_json: Json = False,
) -> None:
    """Delete the offsets of topics from a group without members."""
    from kshare.cli.groups import change
    from kshare.cli.terminal.arguments import require_whole_topics

    require_whole_topics("--topic", topic)
    change.delete_offsets(cluster_of(server, properties), group, topic, is_json)


@groups.command("delete")
def delete(
    names: Annotated[list[str], Argument(metavar="GROUP", help="Groups to delete.")],
    server: Server = None,
    properties: Properties = None,
    is_json: Json = False,
) -> None:
    """Delete groups without members."""
    from kshare.cli.groups import change

    change.delete(cluster_of(server, properties), names, is_json)


@config.command("show")
def show_config(
    group: Group, server: Server = None, properties: Properties = None, is_json: Json = False
) -> None:
    """Show the effective values, where each was set, and its bounds."""
    from kshare.cli.groups import view

    view.show_config(cluster_of(server, properties), group, is_json)


@config.command("set")
def set_config(
    group: Group,
    settings: Annotated[list[str], Argument(metavar="NAME=VALUE", help="Settings to change.")],
    server: Server = None,
    properties: Properties = None,
    is_json: Json = False,
) -> None:
    """Change settings of a group, for example share.auto.offset.reset=earliest."""
    from kshare.cli.groups import change
    from kshare.cli.terminal import arguments

    changes = arguments.settings(settings)
    change.change_config(cluster_of(server, properties), group, changes, is_json)


@config.command("unset")
def unset_config(
    group: Group,
    names: Annotated[list[str], Argument(metavar="NAME", help="Settings to remove.")],
    server: Server = None,
    properties: Properties = None,
    is_json: Json = False,
) -> None:
    """Remove settings of a group: the broker defaults apply again."""
    from kshare.cli.groups import change

    change.change_config(cluster_of(server, properties), group, dict.fromkeys(names), is_json)
