"""Options of `kshare produce`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from kshare.cli.cluster.options import Json, Properties, Server, cluster_of
from kshare.cli.produce.formats import Codec, InputFormat

_LARGEST_VALUE = 2**31 - 1


def produce(
    topic: Annotated[str, Option("--topic", "-t", metavar="TOPIC", help="Topic to write to.")],
    files: Annotated[
        list[Path] | None, Argument(metavar="FILE", help="Input files. Default: standard input.")
    ] = None,
    server: Server = None,
    properties: Properties = None,
    form: Annotated[
        InputFormat,
        Option(
            "--input",
            help="One record per line, one JSON object per line (as by `consume --json`), or one record per file.",
        ),
    ] = InputFormat.LINES,
    separator: Annotated[
        str | None, Option("--key-separator", "-K", metavar="TEXT", help="Separates key and value in a line.")
    ] = None,
    null: Annotated[
        str | None, Option("--null", metavar="TEXT", help="Text that stands for a null key or value.")
    ] = None,
    key: Annotated[str | None, Option("--key", "-k", metavar="TEXT", help="Key of all records.")] = None,
    header: Annotated[
        list[str] | None,
        Option("--header", "-H", metavar="NAME=VALUE", help="Header of all records; may be repeated."),
    ] = None,
    partition: Annotated[
        int | None,
        Option(
            "--partition", "-p", min=0, metavar="N", help="Partition to write to. Default: chosen by the key."
        ),
    ] = None,
    codec: Annotated[Codec, Option("--compression", "-z", help="Compression of the batches.")] = Codec.NONE,
    count: Annotated[
        int | None, Option(min=1, metavar="N", help="Write N generated records instead of reading input.")
    ] = None,
    size: Annotated[int | None, Option(min=1, metavar="BYTES", help="Size of each generated value.")] = None,
    rate: Annotated[
        float | None, Option(min=0.001, metavar="PER_SECOND", help="Records per second, at most.")
    ] = None,
    is_json: Json = False,
) -> None:
    """Write records from standard input or files, or generated ones for a test."""
    from kshare.cli.produce import run
    from kshare.cli.produce.input_records import Template
    from kshare.cli.terminal.arguments import require_whole_topics

    require_whole_topics("--topic", [topic])
    if rate == math.inf:
        raise typer.BadParameter("--rate inf: omit --rate to write without a limit")
    if size is not None and size > _LARGEST_VALUE:
        raise typer.BadParameter(f"--size {size}: a Kafka record holds at most {_LARGEST_VALUE} bytes")
    template = Template.of(key, header or [], partition, separator, null)
    source = run.source(files or [], form, template, count, size)
    run.produce(cluster_of(server, properties), topic, source, codec, rate, is_json)
