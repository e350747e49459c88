"""Commands of `kshare dlq` and their options."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from kshare.cli.cluster.options import Json, Properties, Server
from kshare.cli.terminal.command_group import command_group

dlq = command_group("Dead letters: listed, explained, and redriven to where they came from.")

Topic: TypeAlias = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic that holds the dead letters.")
]
Sources: TypeAlias = Annotated[
    list[str] | None, typer.Option("--source", metavar="TOPIC", help="Only of records of this topic.")
]
Groups: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--from-group", metavar="GROUP", help="Only those that this group gave up."),
]
Reasons: TypeAlias = Annotated[
    list[str] | None, typer.Option("--reason", metavar="TEXT", help="Only with this in their reason.")
]
Since: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Only written from then on: 2026-01-31T12:00:00, UTC if no zone."),
]
Until: TypeAlias = Annotated[str | None, typer.Option(metavar="TIME", help="Only written before.")]
Letters: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--letter", metavar="PARTITION:OFFSET", help="Only this one; may be given several times."),
]
Most: TypeAlias = Annotated[int | None, typer.Option("--max", min=1, metavar="N", help="At most so many.")]


Group: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="GROUP",
        help="The share group that remembers what is redriven; kshare-dlq-TOPIC without it.",
    ),
]


@dlq.command("list")
def list_(
    server: Server = None, properties: Properties = None, group: Group = None, is_json: Json = False
) -> None:
    """Topics that take dead letters, how many they hold that weren't redriven, and whose."""
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.dlq import view

    view.show_topics(Cluster(server, properties), group, is_json)


@dlq.command("show")
def show(
    topic: Topic,
    server: Server = None,
    properties: Properties = None,
    source: Sources = None,
    from_group: Groups = None,
    reason: Reasons = None,
    since: Since = None,
    until: Until = None,
    letter: Letters = None,
    most: Most = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="All that each says, and what that means.")
    ] = False,
    group: Group = None,
    is_json: Json = False,
) -> None:
    """Letters, without settling any; those that were redriven are marked."""
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.dlq import view
    from kshare.cli.dlq.redriven import default_group
    from kshare.cli.dlq.selection import choice

    chosen = choice(source, from_group, reason, since, until, letter)
    named = group or default_group(topic)
    view.show_letters(Cluster(server, properties), topic, named, chosen, most, explain, is_json)


@dlq.command("redrive", short_help="Write records again, and settle their letters.")
def redrive(
    topic: Topic,
    server: Server = None,
    properties: Properties = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="Where to; without it each goes back where it came from."),
    ] = None,
    source: Sources = None,
    from_group: Groups = None,
    reason: Reasons = None,
    since: Since = None,
    until: Until = None,
    letter: Letters = None,
    most: Most = None,
    rate: Annotated[
        float | None, typer.Option(min=0.01, metavar="NUMBER", help="At most so many a second.")
    ] = None,
    group: Group = None,
    settle_others: Annotated[
        bool,
        typer.Option("--settle-others", help="Letters that aren't meant count as done for this group, too."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    is_json: Json = False,
) -> None:
    """Write the records of dead letters again, and settle each letter when its copy is confirmed.

    May be interrupted, or killed, and run again: nothing is lost. What was written just before may then be written
    twice.
    """
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.dlq import view
    from kshare.cli.dlq.redrive_records import Orders
    from kshare.cli.dlq.selection import choice

    chosen = choice(source, from_group, reason, since, until, letter)
    orders = Orders(chosen, to, rate, most, settle_others)
    view.run_redrive(Cluster(server, properties), topic, group, orders, dry_run, is_json)
