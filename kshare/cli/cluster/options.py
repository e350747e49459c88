"""Options of every command that connects to a cluster. Imports little, so that help and completion are fast."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from typer import Option

if TYPE_CHECKING:
    from kshare.cli.cluster.connection import Cluster

Server: TypeAlias = Annotated[
    str | None,
    Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        envvar="KSHARE_BOOTSTRAP_SERVER",
        help="Brokers to connect to first, comma-separated.",
    ),
]
Properties: TypeAlias = Annotated[
    Path | None,
    Option(
        "--command-config",
        metavar="FILE",
        help="A Kafka client properties file, for example with TLS and SASL settings.",
    ),
]
Json: TypeAlias = Annotated[bool, Option("--json", help="Print JSON.")]
OnlyGroups: TypeAlias = Annotated[
    list[str] | None, Option("--group", "-g", metavar="GROUP", help="Only this group; may be repeated.")
]


def cluster_of(server: str | None, properties: Path | None) -> Cluster:
    """What is imported for it isn't needed before the command runs."""
    from kshare.cli.cluster.connection import Cluster

    return Cluster(server, properties)
