"""Options of `kshare consume`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from kshare.cli.cluster.options import Server
from kshare.cli.terminal.completion import beginning


def deserializer_names(incomplete: str) -> list[str]:
    """Shell completion."""
    from kshare.cli.consume.deserializers import KINDS

    return beginning(incomplete, KINDS)


def formatter_properties(incomplete: str) -> list[str]:
    """Shell completion."""
    from kshare.cli.consume.record_text import PROPERTIES

    return beginning(incomplete, (f"{name}=" for name in PROPERTIES))


def list_fields(text: str | None) -> str | None:
    """`--format '%?'` lists the fields and exits, whatever else is given."""
    if text == "%?":
        from kshare.cli.consume.format_string import FIELDS

        typer.echo("\n".join(FIELDS.split(", ")))
        raise typer.Exit
    return text


def consume(
    topics: Annotated[
        list[str], Option("--topic", "-t", metavar="TOPIC", help="Topic to consume; may be repeated.")
    ],
    group: Annotated[
        str | None,
        Option(
            "--group",
            "-g",
            metavar="GROUP",
            help="The share group. Default: console-share-consumer, or what the properties file says.",
        ),
    ] = None,
    server: Server = None,
    properties: Annotated[
        Path | None,
        Option(
            "--command-config",
            "--consumer-config",
            "--config",
            metavar="FILE",
            help="A Kafka client properties file, for example with TLS and SASL settings.",
        ),
    ] = None,
    options: Annotated[
        list[str] | None,
        Option(
            "--command-property",
            "--consumer-property",
            "-X",
            metavar="NAME=VALUE",
            help="A client property; overrides the file.",
        ),
    ] = None,
    reject: Annotated[bool, Option("--reject", help="Reject records instead of accepting them.")] = False,
    release: Annotated[bool, Option("--release", help="Release records instead of accepting them.")] = False,
    reject_on_error: Annotated[
        bool,
        Option(
            "--reject-message-on-error",
            "--reject-on-error",
            help="Reject records that can't be deserialized, and continue.",
        ),
    ] = False,
    most: Annotated[
        int | None, Option("--max-messages", "-n", min=1, metavar="N", help="Stop after this many records.")
    ] = None,
    timeout_ms: Annotated[
        int | None, Option(min=0, metavar="MS", help="Stop when no record has arrived for this long.")
    ] = None,
    format_: Annotated[
        str | None,
        Option(
            "--format",
            "-f",
            metavar="TEXT",
            help=r"Output format such as '%t[%p]@%o %k %s\n'; '%?' alone lists the fields.",
            is_eager=True,
            callback=list_fields,
        ),
    ] = None,
    is_json: Annotated[bool, Option("--json", help="Print one JSON object per line.")] = False,
    key_kind: Annotated[
        str | None,
        Option(
            "--key-deserializer",
            metavar="KIND",
            autocompletion=deserializer_names,
            help="How to read keys: string, long, json, hex, ...",
        ),
    ] = None,
    value_kind: Annotated[
        str | None,
        Option(
            "--value-deserializer",
            metavar="KIND",
            autocompletion=deserializer_names,
            help="How to read values.",
        ),
    ] = None,
    formatter: Annotated[
        list[str] | None,
        Option(
            "--formatter-property",
            "--property",
            metavar="NAME=VALUE",
            autocompletion=formatter_properties,
            help="As in Kafka's console consumers, such as print.key=true.",
        ),
    ] = None,
    formatter_file: Annotated[
        Path | None,
        Option("--formatter-config", metavar="FILE", help="A properties file with formatter properties."),
    ] = None,
    is_interactive: Annotated[
        bool, Option("--interactive", "-i", help="Decide on each record with a key press.")
    ] = False,
) -> None:
    """Consume records as a member of a share group and print them. Only printed records are accepted."""
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.consume import format_choice, run
    from kshare.cli.terminal.arguments import require_whole_topics

    require_whole_topics("--topic", topics)
    if group == "":
        raise typer.BadParameter("--group: the group name must not be empty")
    word = run.word(reject, release)
    form = format_choice.form(
        format_, is_json, key_kind, value_kind, formatter or [], formatter_file, is_interactive
    )
    plan = run.ConsumeMode(
        word, reject_on_error, most, None if timeout_ms is None else timeout_ms / 1000, is_interactive
    )
    cluster = Cluster(server, properties, options or [])
    run.consume(cluster, group, topics, plan, form)
