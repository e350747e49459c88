"""Which worker a command is about, and what the command line says about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kshare.admin.config import admin_settings
from kshare.cli.cluster.connection import read_properties
from kshare.cli.terminal.failure import Failure
from kshare.cli.worker.app_import import import_worker
from kshare.worker import Worker
from kshare.worker.config import override_connection
from kshare.worker.handlers.options import LONGEST_LEASE_S
from kshare.worker.rules.option_checks import require_number
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

    def load(self) -> Worker:
        """Import and configure the worker. Raises Failure or ConfigError."""
        worker = import_worker(self.place)
        worker.configure(self.file)
        if self.properties is not None:
            override_connection(worker, read_properties(self.properties))
        if self.server is not None:
            override_connection(worker, {"bootstrap_servers": self.server})
        if self.drain_timeout is not None:
            worker.drain_timeout = require_number("drain_timeout", self.drain_timeout, 0, LONGEST_LEASE_S)
        if self.announce is not None:
            override_connection(worker, {"announce": self.announce})
        require_endpoint(worker.announce, worker.http)
        if not worker.routes():
            raise Failure(f'{self.place} has no handlers: decorate functions with @worker.handler("orders")')
        if not worker.bootstrap_servers and not _SERVERS & worker.connection.keys():
            raise Failure(
                f"{self.place} doesn't know any brokers: pass --bootstrap-server localhost:9092, set "
                'KSHARE_BOOTSTRAP_SERVER, or write Worker("localhost:9092", ...)'
            )
        admin_settings(worker.bootstrap_servers, worker.connection)
        return worker
