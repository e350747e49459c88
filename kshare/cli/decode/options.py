"""Options of `kshare decode`."""

from __future__ import annotations

from typing import Annotated

import typer

from kshare.cli.terminal.coding import Coding
from kshare.cli.terminal.dissection.names import api_names


def kinds(incomplete: str) -> list[str]:
    """For completion in the shell."""
    from kshare.dissect.fields import index

    names = ["request", "response", "records", "state", *index.MODULES]
    return [name for name in names if name.lower().startswith(incomplete.lower())]


def decode(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE",
            help="Hex, base64, an escaped string, a file's name, or - for standard input.",
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="KIND",
            help="request, response, records, state, or a message's name for a body alone. Guessed if not given.",
            autocompletion=kinds,
        ),
    ] = None,
    api: Annotated[
        str | None,
        typer.Option(
            metavar="API",
            help="API by name or number, which a response doesn't say.",
            autocompletion=api_names,
        ),
    ] = None,
    version: Annotated[int | None, typer.Option(metavar="N", help="Version of the API.")] = None,
    coding: Annotated[
        Coding | None, typer.Option("--input", help="How the bytes are written down. Guessed if not given.")
    ] = None,
    field: Annotated[
        str | None, typer.Option(metavar="PATH", help="Show this field alone: topics[0].partitions[1]")
    ] = None,
    is_hex: Annotated[bool, typer.Option("--hex", help="An annotated hex dump.")] = False,
    is_json: Annotated[bool, typer.Option("--json", help="JSON, which encode takes back.")] = False,
    is_short: Annotated[
        bool | None,
        typer.Option(
            "--summary/--tree",
            help="A line a batch or frame, or all of it. Large log segments come as a summary if nothing is said.",
        ),
    ] = None,
    only_guesses: Annotated[
        bool, typer.Option("--guesses", help="What it could be, best first, and no more.")
    ] = False,
) -> None:
    """Show what bytes of Kafka's protocol mean.

    Takes requests, responses, record batches, records of the share group state topic, and a broker's log segments.
    A broken frame is shown up to the break. Passwords are masked. Network captures are shown as by kshare pcap.
    """
    from kshare.cli.decode.run import Choice, run_decode

    view = "json" if is_json else "hex" if is_hex else "tree"
    if is_json and is_hex:
        raise typer.BadParameter("--hex and --json exclude each other")
    if is_short and (is_hex or field):
        raise typer.BadParameter("--summary shows neither bytes nor fields")
    run_decode(
        source, Choice(kind, api, version, coding and coding.value, field, view, is_short, only_guesses)
    )
