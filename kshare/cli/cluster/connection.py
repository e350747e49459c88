"""The cluster that a command connects to: from an option, the environment, or a properties file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio

from kshare import java_properties
from kshare.admin.client import AdminClient
from kshare.admin.config import admin_settings
from kshare.admin.routing import Router
from kshare.cli.cluster.written_options import WrittenOptions
from kshare.cli.terminal.arguments import named_values
from kshare.cli.terminal.failure import Failure, Misuse
from kshare.errors import ConfigError
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings

T = TypeVar("T")

_SERVERS = "bootstrap.servers"


class Cluster:
    def __init__(self, server: str | None, properties: Path | None, overrides: Iterable[str] = ()) -> None:
        """`overrides` are properties from the command line (name=value); they override those in the file."""
        in_file = read_properties(properties) if properties else {}
        named = dict(named_values(overrides, lambda text: Misuse(f"{text!r} should be name=value")))
        named |= {_SERVERS: server} if server else {}
        self.options: dict[str, Any] = in_file | named
        self._written = WrittenOptions(self.options, properties, in_file.keys() - named.keys())
        if not self.options.get(_SERVERS):
            raise Misuse("no cluster given: use --bootstrap-server host:9092, or set KSHARE_BOOTSTRAP_SERVER")

    @property
    def settings(self) -> NetSettings:
        """For code that opens its own connections. Raises Misuse if an option is invalid."""
        try:
            return admin_settings(None, self.options)
        except ConfigError as error:
            raise Misuse(*self._explained(error).lines) from error

    def explained(self, text: str) -> str:
        """What is said of the options, with the names that the user has written."""
        return self._written.explained(text)

    def _explained(self, error: ConfigError) -> ConfigError:
        return ConfigError(*map(self.explained, error.mistakes))

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """For code that connects: files of certificates are only read then."""
        try:
            yield
        except ConfigError as error:
            raise self._explained(error) from error

    def run(self, work: Callable[[AdminClient], Awaitable[T]]) -> T:
        """Run a function with an admin client, in a new event loop. Ctrl-C cancels it."""

        _ = self.settings  # which checks the options

        async def live() -> T:
            async with AdminClient(**self.options) as admin:
                return await work(admin)

        with self.explaining():
            return anyio.run(live)

    def run_routed(self, work: Callable[[Router], Awaitable[T]]) -> T:
        """Likewise with a router, for code that sends its own requests."""

        settings = self.settings

        async def live() -> T:
            async with Pool(settings) as pool:
                await pool.bootstrap()
                return await work(Router(pool, settings.request_timeout))

        with self.explaining():
            return anyio.run(live)


def read_properties(path: Path) -> dict[str, str]:
    """Settings of a properties file. Raises Failure."""
    try:
        return java_properties.read_properties(path)
    except ConfigError as error:
        raise Failure(*error.lines) from error
