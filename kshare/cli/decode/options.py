"""Options of `kshare decode`."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Argument, Option

from kshare.cli.terminal.completion import api_names, message_kinds
from kshare.wire.coding import Coding


def decode(
    source: Annotated[
        str | None,
        Argument(
            metavar="SOURCE", help="Hex, base64, an escaped string, a file name, or - for standard input."
        ),
    ] = None,
    kind: Annotated[
        str | None,
        Option(
            "--as",
            metavar="KIND",
            help="request, response, records, state, or the name of a message for a body alone. Default: guessed.",
            autocompletion=message_kinds,
        ),
    ] = None,
    api: Annotated[
        str | None,
        Option(
            metavar="API", help="API name or number; a response doesn't contain it.", autocompletion=api_names
        ),
    ] = None,
    version: Annotated[int | None, Option(metavar="N", help="API version.")] = None,
    coding: Annotated[
        Coding | None, Option("--input", help="Encoding of the input. Default: guessed.")
    ] = None,
    field: Annotated[
        str | None, Option(metavar="PATH", help="Show only this field, such as topics[0].partitions[1].")
    ] = None,
    is_hex: Annotated[bool, Option("--hex", help="Show an annotated hex dump.")] = False,
    is_json: Annotated[bool, Option("--json", help="Print JSON that kshare encode can read.")] = False,
    is_short: Annotated[
        bool | None,
        Option(
            "--summary/--tree",
            help="One line per batch or frame, or every field. Large log segments default to the summary.",
        ),
    ] = None,
    only_guesses: Annotated[
        bool, Option("--guesses", help="List possible interpretations, best match first, and exit.")
    ] = False,
) -> None:
    """Decode bytes of the Kafka protocol.

    Takes requests, responses, record batches, records of the share group state topic, and a broker's log segments.
    A malformed frame is shown up to the error. Passwords are masked. Network captures are shown as by kshare pcap.
    """
    from kshare.cli.decode.run import DecodeOptions, run_decode

    view = "json" if is_json else "hex" if is_hex else "tree"
    if is_json and is_hex:
        raise typer.BadParameter("--hex and --json can't be combined")
    if is_short and (is_hex or field):
        raise typer.BadParameter("--summary can't be combined with --hex or --field")
    run_decode(
        source,
        DecodeOptions(kind, api, version, coding and coding.value, field, view, is_short, only_guesses),
    )
