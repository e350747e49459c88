"""Options of `kshare produce`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from kshare.cli.cluster.options import Json, Properties, Server
from kshare.cli.produce.formats import Codec, Form

_LARGEST_VALUE = 2**31 - 1


def produce(
    topic: Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC", help="Where records go.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="What to write; standard input if none is named."),
    ] = None,
    server: Server = None,
    properties: Properties = None,
    form: Annotated[
        Form,
        typer.Option(
            "--input",
            help="A record a line, a JSON object a line (as `consume --json` shows them), or whole files.",
        ),
    ] = Form.LINES,
    separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", metavar="TEXT", help="Lines are key, this, value."),
    ] = None,
    null: Annotated[
        str | None,
        typer.Option("--null", metavar="TEXT", help="Keys and values that are this text are null."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", "-k", metavar="TEXT", help="The key of all records.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="Of all records; may be given often."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, metavar="N", help="Instead of one by the key.")
    ] = None,
    codec: Annotated[Codec, typer.Option("--compression", "-z")] = Codec.NONE,
    count: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Write N made-up records; no input is read.")
    ] = None,
    size: Annotated[int | None, typer.Option(min=1, metavar="BYTES", help="Of each made-up value.")] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, metavar="PER_SECOND", help="No more records a second.")
    ] = None,
    is_json: Json = False,
) -> None:
    """Write records: from standard input, from files, or as many as you like for a test."""
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.produce import run
    from kshare.cli.produce.input_records import Template

    if rate == math.inf:
        raise typer.BadParameter("--rate inf: leave it out to write without a limit")
    if size is not None and size > _LARGEST_VALUE:
        raise typer.BadParameter(f"--size {size}: Kafka's records hold {_LARGEST_VALUE} bytes at most")
    template = Template.of(key, header or [], partition, separator, null)
    source = run.source(files or [], form, template, count, size)
    run.produce(Cluster(server, properties), topic, source, codec, rate, is_json)
