"""Options of `kshare exporter`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from kshare.cli.cluster.options import OnlyGroups, Properties, Server, cluster_of

_LONGEST_INTERVAL_S = 3600


def exporter(
    server: Server = None,
    properties: Properties = None,
    group: OnlyGroups = None,
    listen: Annotated[
        str, Option("--listen", metavar="HOST:PORT", help="Address to serve HTTP on. Port 0 means any.")
    ] = "127.0.0.1:10932",
    interval: Annotated[
        float, Option(min=1, max=_LONGEST_INTERVAL_S, metavar="SECONDS", help="Time between readings.")
    ] = 5.0,
    has_partitions: Annotated[
        bool,
        Option("--partitions/--no-partitions", help="Whether to export metrics of each partition, too."),
    ] = True,
) -> None:
    """Serve lag, rates, window use, ages and dead letters of share groups to Prometheus and KEDA.

    The groups may have members of any client. Metrics are at /metrics, JSON at /groups and /groups/NAME.
    """
    from kshare.cli.exporter.run import run_exporter_command

    run_exporter_command(cluster_of(server, properties), group or [], listen, interval, has_partitions)
