"""Runs `kshare exporter` until SIGINT or SIGTERM."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import anyio

from kshare.cli.cluster.connection import Cluster
from kshare.cli.terminal.failure import misuse
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.standard_error import log_handler
from kshare.cli.terminal.stop_signals import StopSignals, stop_signals
from kshare.errors import KshareError
from kshare.exporter.exporter import ExporterOptions, run_exporter
from kshare.http.endpoint import parse_listen_address
from kshare.net.addresses import format_address
from kshare.net.settings import NetSettings


def run_exporter_command(
    cluster: Cluster, groups: Sequence[str], listen: str, interval: float, has_partitions: bool
) -> None:
    with misuse():
        address = parse_listen_address(listen, "--listen")
    logging.basicConfig(
        level=logging.WARNING, handlers=[log_handler("%(asctime)s %(levelname)s %(name)s: %(message)s")]
    )
    options = ExporterOptions(address, groups, interval, has_partitions)
    with stop_signals() as signals:
        failure = anyio.run(_run, cluster.settings, options, signals)
    if failure is not None:
        with cluster.explaining():
            raise failure


async def _run(settings: NetSettings, options: ExporterOptions, signals: StopSignals) -> KshareError | None:
    """What ended it; None for a signal."""

    def say_where(port: int) -> None:
        screen = Screen()
        screen.line(f"metrics: http://{format_address((options.listen[0], port))}/metrics")
        screen.done()

    failure: KshareError | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(signals.call, tasks.cancel_scope.cancel)
        try:
            await run_exporter(settings, options, say_where)
        except KshareError as error:  # returned, because the task group would wrap it
            failure = error
        tasks.cancel_scope.cancel()
    return failure
