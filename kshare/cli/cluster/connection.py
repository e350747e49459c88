"""The cluster that a command connects to: from an option, the environment, or a properties file."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import anyio

from kshare.admin.client import AdminClient
from kshare.admin.config import admin_settings
from kshare.admin.routing import Router
from kshare.cli.terminal.failure import Failure, Misuse
from kshare.errors import ConfigError
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings

T = TypeVar("T")

_SERVERS = "bootstrap.servers"
_LINE = re.compile(r"\s*([^\s:=]+)\s*[:=\s]\s*(.*)")


class Cluster:
    def __init__(self, server: str | None, properties: Path | None, overrides: Iterable[str] = ()) -> None:
        """`overrides` are properties from the command line (name=value); they override those in the file."""
        self.options: dict[str, Any] = {**_options(server, properties, overrides)}

    @property
    def settings(self) -> NetSettings:
        """For code that opens its own connections. Raises Misuse if an option is invalid."""
        try:
            return admin_settings(None, self.options)
        except ConfigError as error:
            raise Misuse(str(error)) from error

    def run(self, work: Callable[[AdminClient], Awaitable[T]]) -> T:
        """Run a function with an admin client, in a new event loop. Ctrl-C cancels it."""

        _ = self.settings  # which checks the options

        async def live() -> T:
            async with AdminClient(**self.options) as admin:
                return await work(admin)

        return anyio.run(live)

    def run_routed(self, work: Callable[[Router], Awaitable[T]]) -> T:
        """Likewise with a router, for code that sends its own requests."""

        settings = self.settings

        async def live() -> T:
            async with Pool(settings) as pool:
                await pool.bootstrap()
                return await work(Router(pool, settings.request_timeout))

        return anyio.run(live)


def _options(server: str | None, properties: Path | None, overrides: Iterable[str]) -> dict[str, str]:
    """The connection options, under Kafka's names."""
    options = read_properties(properties) if properties else {}
    options |= _named(overrides)
    if server:
        options[_SERVERS] = server
    if not options.get(_SERVERS):
        raise Misuse("no cluster given: use --bootstrap-server host:9092, or set KSHARE_BOOTSTRAP_SERVER")
    return options


def _named(overrides: Iterable[str]) -> dict[str, str]:
    properties = {}
    for one in overrides:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise Misuse(f"{one!r} should be name=value")
        properties[name] = value
    return properties


def read_properties(path: Path) -> dict[str, str]:
    """Parse Java's properties format as Kafka uses it: names, values, comments, lines continued with a backslash."""
    properties: dict[str, str] = {}
    try:
        text = re.sub(r"\\\r?\n\s*", "", path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise Failure(f"{path} is not a properties file: not valid UTF-8 (byte {error.start})") from error
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip()[0] in "#!":
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise Failure(f"{path}, line {number}: expected name=value")
        properties[match[1]] = match[2].strip()
    return properties
