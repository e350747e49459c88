"""Options of `kshare pcap`."""

from __future__ import annotations

from typing import Annotated

import typer

from kshare.cli.terminal.traffic.options import Apis, Errors, Groups, Json, Lint, Topics, Verbose, make_show


def pcap(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A capture, pcap or pcapng; - for standard input, as tcpdump -U -w - writes it.",
        ),
    ],
    ports: Annotated[
        list[int] | None,
        typer.Option(
            "--port", metavar="PORT", help="Only connections to servers at this port; may be given again."
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
    """Show what clients and brokers said to each other in a capture of tcpdump's or Wireshark's.

    The same views and the same linter as kshare trace. A capture may begin in the middle of connections, lack packets,
    or have them in any order. Passwords are masked.
    """
    from kshare.cli.pcap.run import run_pcap

    show = make_show(apis, topics, groups, errors, is_verbose, is_json, only_findings)
    run_pcap(file, ports or [], show)
