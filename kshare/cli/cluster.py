"""The cluster that a command speaks with: from an option, the environment, or a properties file of Kafka's.

Decides what such a file says. Never what is asked.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import anyio

from kshare.admin.client import AdminClient
from kshare.admin.config import admin_settings
from kshare.cli.failure import Failure
from kshare.net.settings import NetSettings

T = TypeVar("T")

_SERVERS = "bootstrap.servers"
_LINE = re.compile(r"\s*([^\s:=]+)\s*[:=\s]\s*(.*)")


class Cluster:
    def __init__(self, server: str | None, properties: Path | None) -> None:
        self._options = options_of(server, properties)

    @property
    def settings(self) -> NetSettings:
        """For whoever connects alone."""
        return admin_settings(None, self._options)

    def run(self, work: Callable[[AdminClient], Awaitable[T]]) -> T:
        """In an event loop of its own, which Ctrl-C ends."""

        async def live() -> T:
            async with AdminClient(**self._options) as admin:
                return await work(admin)

        return anyio.run(live)


def options_of(server: str | None, properties: Path | None) -> dict[str, str]:
    """How to reach the cluster, in Kafka's names."""
    options = read_properties(properties) if properties else {}
    if server:
        options[_SERVERS] = server
    if not options.get(_SERVERS):
        raise Failure("which cluster? Give --bootstrap-server host:9092, or set KSHARE_BOOTSTRAP_SERVER")
    return options


def read_properties(path: Path) -> dict[str, str]:
    """Java's format as it is used for Kafka: names and values, comments, lines that go on behind a backslash."""
    found: dict[str, str] = {}
    text = re.sub(r"\\\r?\n\s*", "", path.read_text(encoding="utf-8"))
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip()[0] in "#!":
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise Failure(f"{path}, line {number}: this should be name=value")
        found[match[1]] = match[2].strip()
    return found
