"""Options of `kshare encode`."""

from __future__ import annotations

from typing import Annotated

import typer

from kshare.cli.terminal.coding import Coding


def encode(
    source: Annotated[
        str | None, typer.Argument(metavar="SOURCE", help="JSON, a file's name, or - for standard input.")
    ] = None,
    output: Annotated[Coding, typer.Option(help="How to write the bytes down.")] = Coding.HEX,
) -> None:
    """Make bytes of JSON, as decode --json writes it.

    With a header it becomes a frame, without one the body alone: {"message": "ShareFetchRequest", "version": 2,
    "body": {...}}. Fields that are left out have their defaults.
    """
    from kshare.cli.encode.run import run_encode

    run_encode(source, output.value)
