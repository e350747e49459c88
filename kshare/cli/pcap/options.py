"""Options of `kshare pcap`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

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


def pcap(
    file: Annotated[
        str,
        Argument(metavar="FILE", help="A pcap or pcapng file, or - for standard input (tcpdump -U -w -)."),
    ],
    ports: Annotated[
        list[int] | None,
        Option("--port", metavar="PORT", help="Only connections to this server port; may be repeated."),
    ] = None,
    apis: Apis = None,
    topics: Topics = None,
    groups: Groups = None,
    errors: Errors = None,
    is_verbose: Verbose = False,
    is_json: Json = False,
    only_findings: Lint = False,
) -> None:
    """Show Kafka traffic from a network capture by tcpdump or Wireshark.

    Same output and linter as kshare trace. A capture may begin in the middle of connections, lack packets, or have
    them in any order. Passwords are masked.
    """
    from kshare.cli.pcap.run import run_pcap

    show = traffic_options(apis, topics, groups, errors, is_verbose, is_json, only_findings)
    run_pcap(file, ports or [], show)
