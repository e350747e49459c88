"""Options of `kshare trace`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from kshare.cli.cluster.options import Properties, Server, cluster_of
from kshare.cli.terminal.traffic.options import (
    Apis,
    Errors,
    Groups,
    Json,
    Lint,
    Topics,
    Verbose,
    traffic_options,
)


def trace(
    server: Server = None,
    properties: Properties = None,
    listen: Annotated[
        str,
        Option(
            metavar="HOST:PORT", help="Address of the proxy for clients; the brokers get the ports after it."
        ),
    ] = "127.0.0.1:19092",
    write: Annotated[
        Path | None,
        Option(
            "--write",
            "-w",
            metavar="FILE",
            help="Also write the traffic to a pcapng file, for kshare pcap and Wireshark.",
        ),
    ] = None,
    apis: Apis = None,
    topics: Topics = None,
    groups: Groups = None,
    errors: Errors = None,
    is_verbose: Verbose = False,
    is_json: Json = False,
    only_findings: Lint = False,
) -> None:
    """Show Kafka traffic, as a proxy between clients and brokers.

    Clients use the address of this proxy as their bootstrap server and reach all brokers through it. TLS and SASL
    towards the cluster are configured in --command-config; clients connect without TLS, and may use SASL themselves.
    Ctrl-C ends it with a summary. Passwords are masked, in captures too.
    """
    from kshare.cli.trace.run import run_trace

    show = traffic_options(apis, topics, groups, errors, is_verbose, is_json, only_findings)
    run_trace(cluster_of(server, properties), listen, write, show)
