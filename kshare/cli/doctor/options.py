"""Options of `kshare doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from kshare.cli.cluster.options import Json, Properties, Server


def doctor(
    server: Server = None,
    properties: Properties = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUP", help="Look at this group alone; may be given several times."),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="May this user consume this topic? May be given several times."),
    ] = None,
    is_json: Json = False,
) -> None:
    """Look for what keeps share groups from working, and say what to type.

    Reads only: nothing is changed, no group is joined. The exit code is 1 if there is a problem.
    """
    from kshare.cli.cluster.connection import Cluster
    from kshare.cli.doctor.run import run_doctor

    run_doctor(Cluster(server, properties), group or [], topic or [], is_json)
