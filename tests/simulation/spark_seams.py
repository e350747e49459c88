"""What a simulation replaces in the Spark source: threads, portals into loops, sleeping, the folder of a machine.

All else is as in a real query. Disks are real folders, and writing takes simulated time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint

from kshare.spark.driver import range_member, runner, verdict_log
from kshare.spark.executor import connections, reader, spare_collections
from tests.simulation.blocking import sleep
from tests.simulation.portals import start_portal
from tests.simulation.processes import current_process
from tests.simulation.spark_processes import Driver, connections_of_process, serve_settlements

_DISK_S = (0.0, 0.0, 0.001, 0.02, 0.3)


@contextmanager
def spark_seams(chance: Random) -> Iterator[None]:
    async def run_sync(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """In place of a thread. Once begun, it ends, unless its process is killed: then it is done, or not at all."""
        process, result = current_process(), None  # which a killed process gets if it is shielded
        with anyio.CancelScope(shield=True):
            await anyio.sleep(chance.choice(_DISK_S))
        if process is None or not process.was_killed:
            result = function(*arguments)
            with anyio.CancelScope(shield=True):
                await anyio.sleep(chance.choice(_DISK_S))
        if process is not None and process.was_killed:
            await checkpoint()  # it is cancelled here
        return result

    replaced: tuple[tuple[Any, str, Any], ...] = (
        (runner, "start_blocking_portal", start_portal),
        (connections, "start_blocking_portal", start_portal),
        (reader, "connections", connections_of_process),
        (reader, "sleep", sleep),
        (spare_collections, "spare_collections", lambda: None),
        (range_member, "socket_folder", _folder_of_machine),
        (range_member, "serve_settlements", serve_settlements),
        (to_thread, "run_sync", run_sync),
        (verdict_log, "run_sync", run_sync),
    )
    with ExitStack() as stack:
        for owner, name, replacement in replaced:
            stack.enter_context(mock.patch.object(owner, name, replacement))
        yield


def _folder_of_machine() -> Path:
    process = current_process()
    assert isinstance(process, Driver)
    return process.disk
