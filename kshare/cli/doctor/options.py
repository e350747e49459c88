"""Options of `kshare doctor`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from kshare.cli.cluster.options import Json, Properties, Server, cluster_of


def doctor(
    server: Server = None,
    properties: Properties = None,
    group: Annotated[
        list[str] | None,
        Option("--group", "-g", metavar="GROUP", help="Check only this group; may be repeated."),
    ] = None,
    topic: Annotated[
        list[str] | None,
        Option(
            "--topic",
            "-t",
            metavar="TOPIC",
            help="Also check whether this user may consume this topic; may be repeated.",
        ),
    ] = None,
    is_json: Json = False,
) -> None:
    """Find problems that keep share groups from working, and suggest commands to fix them.

    Changes nothing and joins no group. The exit code is 1 if there is a problem, or if brokers don't respond.
    """
    from kshare.cli.doctor.run import run_doctor
    from kshare.cli.terminal.arguments import require_whole_topics

    require_whole_topics("--topic", topic or ())
    run_doctor(cluster_of(server, properties), group or [], topic or [], is_json)
