"""Runs an exporter for a test, in its event loop, and asks its pages."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import anyio
from prometheus_client.parser import text_string_to_metric_families

from kshare.admin.config import admin_settings
from kshare.exporter.exporter import ExporterOptions, run_exporter
from tests.helpers.running_worker import DEADLINE_S, get

Labels = frozenset[tuple[str, str]]


class RunningExporter:
    def __init__(self, port: int) -> None:
        self.port = port

    async def metrics(self) -> dict[str, dict[Labels, float]]:
        """ExportedMetric → labels → value."""
        status, body = await get(self.port, "/metrics")
        assert status == 200
        return parse_metrics(body)

    async def group(self, name: str) -> tuple[int, Any]:
        status, body = await get(self.port, f"/groups/{quote(name, safe='')}")
        return status, json.loads(body)

    async def until(self, is_so: Callable[[dict[str, dict[Labels, float]]], bool]) -> dict[str, Any]:
        """Ask for the metrics until they are as expected."""
        with anyio.fail_after(DEADLINE_S):
            while not is_so(found := await self.metrics()):
                await anyio.sleep(0.02)
        return found


def parse_metrics(text: str) -> dict[str, dict[Labels, float]]:
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def labels(**named: str) -> Labels:
    return frozenset(named.items())


@asynccontextmanager
async def exporting(
    bootstrap: str, interval_s: float = 0.05, *, has_partitions: bool = True, groups: tuple[str, ...] = ()
) -> AsyncIterator[RunningExporter]:
    """An exporter that runs while the block does."""
    settings = admin_settings(bootstrap, {"request_timeout": 5.0})
    options = ExporterOptions(("127.0.0.1", 0), groups, interval_s, has_partitions)
    listening = anyio.Event()
    ports: list[int] = []

    def note(port: int) -> None:
        ports.append(port)
        listening.set()

    with anyio.fail_after(2 * DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_exporter, settings, options, note)
            await listening.wait()
            yield RunningExporter(ports[0])
            tasks.cancel_scope.cancel()
