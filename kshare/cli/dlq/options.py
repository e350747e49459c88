"""Commands of `kshare dlq` and their options."""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

import typer
from typer import Argument, Option

from kshare.cli.cluster.options import Json, Properties, Server, cluster_of
from kshare.cli.terminal.command_group import command_group

dlq = command_group("List dead letters, show them, redrive them to their original topics, or drop them.")

NamesT = TypeVar("NamesT", str | None, list[str] | None)


def _not_empty(names: NamesT) -> NamesT:
    """Otherwise, with a variable that isn't set, a filter would choose all dead letters."""
    if any(not name.strip() for name in ([names] if isinstance(names, str) else names or ())):
        raise typer.BadParameter("must not be empty")
    return names


Topic: TypeAlias = Annotated[str, Argument(metavar="TOPIC", help="The topic that holds the dead letters.")]
Sources: TypeAlias = Annotated[
    list[str] | None,
    Option(
        "--source", metavar="TOPIC", callback=_not_empty, help="Only dead letters of records from this topic."
    ),
]
Groups: TypeAlias = Annotated[
    list[str] | None,
    Option(
        "--from-group", metavar="GROUP", callback=_not_empty, help="Only dead letters of this share group."
    ),
]
Reasons: TypeAlias = Annotated[
    list[str] | None,
    Option(
        "--reason",
        metavar="TEXT",
        callback=_not_empty,
        help="Only dead letters whose reason contains this text.",
    ),
]
Since: TypeAlias = Annotated[
    str | None,
    Option(
        metavar="TIME",
        help="Only dead letters written at or after this time: 2026-01-31T12:00:00, UTC unless a zone is given.",
    ),
]
Until: TypeAlias = Annotated[
    str | None, Option(metavar="TIME", help="Only dead letters written before this time.")
]
Letters: TypeAlias = Annotated[
    list[str] | None,
    Option("--letter", metavar="PARTITION:OFFSET", help="Only this dead letter; may be repeated."),
]
Most: TypeAlias = Annotated[int | None, Option("--max", min=1, metavar="N", help="Stop after this many.")]


Group: TypeAlias = Annotated[
    str | None,
    Option(
        "--group",
        "-g",
        metavar="GROUP",
        callback=_not_empty,
        help="The share group that keeps track of redriven dead letters. Default: kshare-dlq-TOPIC.",
    ),
]


@dlq.command("list")
def list_(
    server: Server = None, properties: Properties = None, group: Group = None, is_json: Json = False
) -> None:
    """List dead-letter topics, with the number of dead letters that were not redriven, and their groups."""
    from kshare.cli.dlq.letters_view import show_topics

    show_topics(cluster_of(server, properties), group, is_json)


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
        bool, Option("--explain", help="Show all details of each dead letter, with explanations.")
    ] = False,
    group: Group = None,
    is_json: Json = False,
) -> None:
    """Show dead letters without settling them; redriven ones are marked."""
    from kshare.cli.dlq.chosen_letters import require_topic_arguments, selection
    from kshare.cli.dlq.letters_view import show_letters
    from kshare.dead_letters.letter_states import default_group

    require_topic_arguments(topic, source)
    chosen = selection(source, from_group, reason, since, until, letter)
    named = group or default_group(topic)
    show_letters(cluster_of(server, properties), topic, named, chosen, most, explain, is_json)


@dlq.command("redrive", short_help="Write the records of dead letters to their topics again.")
def redrive(
    topic: Topic,
    server: Server = None,
    properties: Properties = None,
    to: Annotated[
        str | None,
        Option(
            metavar="TOPIC",
            callback=_not_empty,
            help="Topic to write to. Default: the topic each record came from.",
        ),
    ] = None,
    source: Sources = None,
    from_group: Groups = None,
    reason: Reasons = None,
    since: Since = None,
    until: Until = None,
    letter: Letters = None,
    most: Most = None,
    rate: Annotated[
        float | None, Option(min=0.01, metavar="NUMBER", help="Records per second, at most.")
    ] = None,
    group: Group = None,
    settle_others: Annotated[
        bool, Option("--settle-others", help="Also settle the dead letters that the filters exclude.")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be redriven.")] = False,
    is_json: Json = False,
) -> None:
    """Write the records of dead letters again, and settle each dead letter once its copy is confirmed.

    Can be interrupted, or killed, and run again: nothing is lost. Records written just before the interruption
    may be written twice.
    """
    from kshare.cli.dlq.chosen_letters import require_topic_arguments, selection
    from kshare.cli.dlq.redrive_view import run_redrive
    from kshare.dead_letters.redrive_records import RedriveRequest

    require_topic_arguments(topic, source, to)
    chosen = selection(source, from_group, reason, since, until, letter)
    request = RedriveRequest(chosen, to, rate, most, settle_others)
    run_redrive(cluster_of(server, properties), topic, group, request, dry_run, is_json)


@dlq.command("drop", short_help="Settle dead letters without redriving them.")
def drop(
    topic: Topic,
    server: Server = None,
    properties: Properties = None,
    source: Sources = None,
    from_group: Groups = None,
    reason: Reasons = None,
    since: Since = None,
    until: Until = None,
    letter: Letters = None,
    all_: Annotated[bool, Option("--all", help="All dead letters of the topic.")] = False,
    most: Most = None,
    group: Group = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be dropped.")] = False,
    is_json: Json = False,
) -> None:
    """Settle dead letters without writing their records anywhere: later redrives leave them out.

    They stay in the topic as long as its retention allows. Another --group can still redrive them.
    """
    from kshare.cli.dlq.chosen_letters import require_topic_arguments, selection
    from kshare.cli.dlq.drop_view import run_drop
    from kshare.dead_letters.drop import DropRequest
    from kshare.dead_letters.selection import Selection

    require_topic_arguments(topic, source)
    chosen = selection(source, from_group, reason, since, until, letter)
    if all_ == (chosen != Selection()):
        raise typer.BadParameter("select dead letters, for example with --letter or --reason, or give --all")
    run_drop(cluster_of(server, properties), topic, group, DropRequest(chosen, most), dry_run, is_json)
