"""Options of every command that connects to a cluster. Imports little, so that help and completion are fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Server: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        envvar="KSHARE_BOOTSTRAP_SERVER",
        help="Brokers to connect to first, comma-separated.",
    ),
]
Properties: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="A Kafka client properties file, for example with TLS and SASL settings.",
    ),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
