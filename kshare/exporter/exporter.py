"""The exporter: an HTTP endpoint, and behind it the readings of a cluster.

It listens first, and then looks for the cluster. A wrong login ends it at once. A cluster that can't be reached
doesn't: it may start later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import anyio

from kshare.admin.routing import Router
from kshare.errors import ConnectionLost, KshareError, RequestTimedOut
from kshare.exporter.pages import ExporterPages
from kshare.exporter.watch import ClusterWatch
from kshare.http.endpoint import http_endpoint
from kshare.monitor.collect import retry_limit
from kshare.net.addresses import Address, format_address
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings

log = logging.getLogger("kshare.exporter")

_SOON_S = 1.0
"""A first reading that takes longer is worth a line in the log."""


@dataclass(frozen=True, slots=True)
class ExporterOptions:
    listen: Address
    groups: Sequence[str] = ()
    """Only these; empty for all."""
    interval_s: float = 5.0
    has_partitions: bool = True


async def run_exporter(
    settings: NetSettings, options: ExporterOptions, on_listening: Callable[[int], None]
) -> None:
    """Runs until cancelled. `on_listening` is called with the port, before the cluster is reached."""
    watch = ClusterWatch(options.groups, options.interval_s)
    pages = ExporterPages(watch, has_partitions=options.has_partitions)
    failure: KshareError | None = None
    async with http_endpoint(options.listen, pages, "--listen") as port, anyio.create_task_group() as tasks:
        on_listening(port)
        tasks.start_soon(_say_if_unread, watch, format_address((options.listen[0], port)))
        try:
            async with Pool(settings) as pool:
                with suppress(ConnectionLost, RequestTimedOut):  # the first reading reports these
                    await pool.bootstrap(timeout=settings.connect_timeout)
                await watch.run(Router(pool, retry_limit(options.interval_s, settings.request_timeout)))
        except KshareError as error:  # raised below, outside of the task groups
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _say_if_unread(watch: ClusterWatch, where: str) -> None:
    await anyio.sleep(_SOON_S)
    if not watch.is_ready and not watch.state.failures:
        log.warning(
            "listening on %s, but the cluster hasn't been read yet: until then, /metrics has no groups, and "
            "kshare_exporter_up is 0",
            where,
        )
