"""Which worker a command is about, and what the command line says about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kshare.admin.config import OPTIONS as CONNECTION_OPTIONS
from kshare.admin.config import admin_settings
from kshare.cli.cluster.connection import read_properties
from kshare.cli.terminal.failure import Failure
from kshare.cli.worker.app_import import import_worker
from kshare.options.mistakes import Mistakes
from kshare.worker import Worker
from kshare.worker.config import override_connection
from kshare.worker.watch.announcement import require_endpoint

_SERVERS = {"bootstrap_servers", "bootstrap.servers"}


@dataclass(frozen=True, slots=True)
class AppOptions:
    """Which worker, and what the command line says about it."""

    place: str
    server: str | None = None
    properties: Path | None = None
    file: Path | None = None
    drain_timeout: float | None = None
    announce: str | None = None

    def arguments(self) -> list[str]:
        given = {
            "--bootstrap-server": self.server,
            "--command-config": self.properties,
            "--config": self.file,
            "--drain-timeout": self.drain_timeout,
            "--announce": self.announce,
        }
        return [word for name, value in given.items() if value is not None for word in (name, str(value))]

    def _overrides(self) -> list[dict[str, Any]]:
        """Options of the worker on the command line, in the order of their precedence."""
        written = {
            "bootstrap_servers": self.server,
            "drain_timeout": self.drain_timeout,
            "announce": self.announce,
        }
        given = {name: value for name, value in written.items() if value is not None}
        return [read_properties(self.properties) if self.properties is not None else {}, given]

    def load(self) -> Worker:
        """Import and configure the worker. Raises Failure or ConfigError."""
        worker = import_worker(self.place)
        mistakes = Mistakes()
        with mistakes:
            worker.configure(self.file)
        for options in self._overrides():
            with mistakes:
                # What a mistake before has left out isn't missing.
                override_connection(worker, options, CONNECTION_OPTIONS if mistakes else ())
        if not mistakes:
            with mistakes:
                require_endpoint(worker.announce, worker.http)
        mistakes.raise_all()
        if not worker.routes():
            raise Failure(f'{self.place} has no handlers: decorate functions with @worker.handler("orders")')
        if not worker.bootstrap_servers and not _SERVERS & worker.connection.keys():
            raise Failure(
                f"{self.place} doesn't know any brokers: pass --bootstrap-server localhost:9092, set "
                'KSHARE_BOOTSTRAP_SERVER, or write Worker("localhost:9092", ...)'
            )
        admin_settings(worker.bootstrap_servers, worker.connection)
        return worker
