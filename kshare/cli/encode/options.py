"""Options of `kshare encode`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from kshare.wire.coding import Coding


def encode(
    source: Annotated[
        str | None, Argument(metavar="SOURCE", help="JSON, a file name, or - for standard input.")
    ] = None,
    output: Annotated[Coding, Option(help="Encoding of the output.")] = Coding.HEX,
) -> None:
    """Encode JSON, as decode --json prints it, into bytes of the Kafka protocol.

    With a header the result is a frame, without one a body: {"message": "ShareFetchRequest", "version": 2,
    "body": {...}}. Omitted fields have their defaults.
    """
    from kshare.cli.encode.run import run_encode

    run_encode(source, output.value)
