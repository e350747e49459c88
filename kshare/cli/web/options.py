"""Options of `kshare web`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from kshare.cli.cluster.options import Properties, Server


def web(
    context: typer.Context,
    server: Server = None,
    properties: Properties = None,
    listen: Annotated[str, Option(metavar="HOST:PORT", help="Address of the console.")] = "127.0.0.1:8932",
    demo: Annotated[
        bool, Option("--demo", help="Run an embedded broker with some groups, and show these.")
    ] = False,
    allow_changes: Annotated[
        bool, Option("--allow-changes", help="Allow changes to settings, offsets and dead letters.")
    ] = False,
    users: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Require a name and a password from this file; see --make-user. With --user-header: their rights.",
        ),
    ] = None,
    user_header: Annotated[
        str | None,
        Option(metavar="NAME", help="Header in which an authenticating proxy passes user names."),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        Option(metavar="ADDRESS", help="Address of that proxy; may be repeated. Default: this machine."),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        Option(
            metavar="NAME", help="Another host name under which browsers reach the console; may be repeated."
        ),
    ] = None,
    worker: Annotated[
        list[str] | None,
        Option(metavar="URL", help="HTTP endpoint of a worker, for the page Workers; may be repeated."),
    ] = None,
    worker_topic: Annotated[
        str | None,
        Option(metavar="TOPIC", help="Topic in which workers are announced (kshare worker --announce)."),
    ] = None,
    worker_host: Annotated[
        list[str] | None,
        Option(
            metavar="HOST",
            help="Host or network of announced workers, such as *.shop.svc or 10.0.0.0/8; may be repeated. Others "
            "aren't queried. Default: all except this machine and link-local addresses.",
        ),
    ] = None,
    audit_log: Annotated[
        Path | None, Option(metavar="FILE", help="Write every change to this file. Default: to stderr.")
    ] = None,
    schema_registry: Annotated[
        str | None,
        Option(
            metavar="URL",
            envvar="KSHARE_SCHEMA_REGISTRY",
            help="Schema registry for decoding records. If the URL has a password, set the variable "
            "instead: other users of the machine can see command lines.",
        ),
    ] = None,
    interval: Annotated[
        float, Option(min=0.5, max=3600, metavar="SECONDS", help="Time between readings, at least.")
    ] = 2.0,
    make_user: Annotated[
        str | None, Option(metavar="NAME", help="Ask for a password, print a line for --users, and exit.")
    ] = None,
) -> None:
    """Show share groups in the browser: lag, in-flight windows, members, workers, settings, dead letters.

    Only this machine can open the console, and nothing can be changed, unless options say otherwise.
    """
    from kshare.cli.web import run

    if make_user is not None:
        run.show_user_line(make_user)
        return
    source = context.get_parameter_source("server")
    if demo and source is not None and source.name == "ENVIRONMENT":
        server = None  # it is for other commands
    place = context.get_parameter_source("schema_registry")
    run.run_web(
        server,
        properties,
        listen,
        {
            "allow_changes": allow_changes,
            "users": users,
            "user_header": user_header,
            "allowed_hosts": tuple(allowed_host or ()),
            "worker_urls": tuple(worker or ()),
            "worker_topic": worker_topic,
            "worker_hosts": tuple(worker_host or ()),
            "audit_log": audit_log,
            "schema_registry": schema_registry,
            "interval_s": interval,
            **({"trusted_proxies": tuple(trusted_proxy)} if trusted_proxy else {}),
        },
        is_demo=demo,
        is_registry_visible=place is not None and place.name == "COMMANDLINE",
    )
