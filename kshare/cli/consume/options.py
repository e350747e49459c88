"""Options of `kshare consume`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kshare.cli.cluster.options import Server


def kinds(incomplete: str) -> list[str]:
    """For completion in the shell."""
    from kshare.cli.consume.deserializers import KINDS

    return [kind for kind in KINDS if kind.startswith(incomplete.lower())]


def formatter_properties(incomplete: str) -> list[str]:
    """For completion in the shell."""
    from kshare.cli.consume.record_text import PROPERTIES

    return [f"{name}=" for name in PROPERTIES if name.startswith(incomplete)]


def consume(
    topics: Annotated[
        list[str], typer.Option("--topic", "-t", metavar="TOPIC", help="May be given several times.")
    ],
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="GROUP",
            help="The share group; console-share-consumer, if nothing says another.",
        ),
    ] = None,
    server: Server = None,
    properties: Annotated[
        Path | None,
        typer.Option(
            "--command-config",
            "--consumer-config",
            "--config",
            metavar="FILE",
            help="A properties file in Kafka's names, for TLS and SASL above all.",
        ),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--command-property",
            "--consumer-property",
            "-X",
            metavar="NAME=VALUE",
            help="One such property; wins over the file.",
        ),
    ] = None,
    reject: Annotated[
        bool, typer.Option("--reject", help="Reject records instead of accepting them.")
    ] = False,
    release: Annotated[bool, typer.Option("--release", help="Release them, for others to get.")] = False,
    reject_on_error: Annotated[
        bool,
        typer.Option(
            "--reject-message-on-error", "--reject-on-error", help="Reject what can't be shown, and go on."
        ),
    ] = False,
    most: Annotated[
        int | None, typer.Option("--max-messages", "-n", min=1, metavar="N", help="Stop after that many.")
    ] = None,
    timeout_ms: Annotated[
        int | None, typer.Option(min=0, metavar="MS", help="Stop when nothing has come for so long.")
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", "-f", metavar="TEXT", help=r"Such as '%t[%p]@%o %k %s\n'; %? lists what there is."
        ),
    ] = None,
    is_json: Annotated[bool, typer.Option("--json", help="A JSON object a line.")] = False,
    key_kind: Annotated[
        str | None,
        typer.Option(
            "--key-deserializer", metavar="KIND", autocompletion=kinds, help="string, long, json, hex, ..."
        ),
    ] = None,
    value_kind: Annotated[
        str | None,
        typer.Option("--value-deserializer", metavar="KIND", autocompletion=kinds, help="Likewise."),
    ] = None,
    formatter: Annotated[
        list[str] | None,
        typer.Option(
            "--formatter-property",
            "--property",
            metavar="NAME=VALUE",
            autocompletion=formatter_properties,
            help="As in Kafka's tools: print.key=true.",
        ),
    ] = None,
    formatter_file: Annotated[
        Path | None, typer.Option("--formatter-config", metavar="FILE", help="A file of those.")
    ] = None,
    is_interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Decide on each record by a key.")
    ] = False,
) -> None:
    """Show records of a share group, and settle them: those that were shown are accepted, no others."""
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.consume import format_choice, run

    if group == "":
        raise typer.BadParameter("--group: a group's name must not be empty")
    word = run.word(reject, release)
    form = format_choice.form(
        format_, is_json, key_kind, value_kind, formatter or [], formatter_file, is_interactive
    )
    plan = run.Plan(
        word, reject_on_error, most, None if timeout_ms is None else timeout_ms / 1000, is_interactive
    )
    cluster = Cluster(server, properties, options or [])
    run.consume(cluster, group, topics, plan, form)
