"""pytest fixtures: `kshare_broker`, one broker, `kshare_cluster`, three, and `kshare_run_worker`, for workers.

All are fresh for each test.

`@pytest.mark.kshare_broker(...)` takes the options of `kshare.testing.Broker` for one test, class or module; the ini
option `kshare_broker_settings` takes Kafka's broker settings for all tests, `kshare_broker_server_properties` those in
a file.

Installed with kshare. Nothing is imported until a test uses a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kshare.testing import Broker, RunningWorker

_MARKER, _INI, _FILE = "kshare_broker", "kshare_broker_settings", "kshare_broker_server_properties"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        _INI, "broker settings of kshare's embedded broker, one name=value per line", type="linelist"
    )
    parser.addini(_FILE, "files with broker settings, like Kafka's server.properties", type="paths")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{_MARKER}(**options): options of kshare.testing.Broker for this test"
    )


def _ini_settings(config: pytest.Config) -> dict[str, str]:
    """The settings of the ini file override those in the files that it names."""
    in_files: dict[str, str] = {}
    for path in config.getini(_FILE):
        from kshare.errors import ConfigError
        from kshare.testing import server_properties

        try:
            in_files |= server_properties(path)
        except ConfigError as error:
            raise pytest.UsageError(f"{_FILE}: {error}") from None
    settings: dict[str, str] = {}
    for line in config.getini(_INI):
        name, is_there, value = (part.strip() for part in line.partition("="))
        if not is_there:
            raise pytest.UsageError(f"{_INI}: {line!r} has no =")
        if name in settings:
            raise pytest.UsageError(f"{_INI}: {name} is set twice")
        settings[name] = value
    return in_files | settings


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The options of the markers (the nearest has precedence), then those of the ini file."""
    settings = _ini_settings(request.config)
    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers(_MARKER))):
        if marker.args:
            raise pytest.UsageError(
                f"@pytest.mark.{_MARKER} takes options of kshare.testing.Broker by name, not {marker.args[0]!r}"
            )
        options |= marker.kwargs
    chosen = options.get("settings") or {}
    # If it isn't a mapping, it is reported like other invalid options.
    options["settings"] = settings | dict(chosen) if isinstance(chosen, Mapping) else chosen
    return options


def _broker(request: pytest.FixtureRequest, **defaults: Any) -> Broker:
    from kshare.errors import ConfigError
    from kshare.testing import Broker

    options = defaults | _options(request)
    try:
        return Broker(**options)
    except ConfigError as error:
        raise pytest.UsageError(f"@pytest.mark.{_MARKER}, or {_INI} in the ini file: {error}") from None


@pytest.fixture
def kshare_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """An embedded broker; clients connect to `kshare_broker.bootstrap`."""
    with _broker(request) as broker:
        yield broker


@pytest.fixture
def kshare_cluster(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A cluster of three embedded brokers, to move leaders and stop brokers."""
    with _broker(request, nodes=3) as cluster:
        yield cluster


@pytest.fixture
def kshare_run_worker(request: pytest.FixtureRequest) -> Callable[..., AbstractContextManager[RunningWorker]]:
    """`kshare.testing.run_worker`, with the broker's options of this test."""
    from kshare.testing import run_worker

    def run(*arguments: Any, **options: Any) -> AbstractContextManager[RunningWorker]:
        return run_worker(*arguments, **(_options(request) | options))

    return run
