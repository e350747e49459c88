"""The options of an AdminClient: where the cluster is and how to connect, in our names or in Kafka's.

Options of consumers raise ConfigError, so that none is silently ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kshare.client.config import OPTIONS as CONSUMER_OPTIONS
from kshare.client.kafka_names import parse_option
from kshare.errors import ConfigError
from kshare.net.settings import CLIENT_OPTIONS, NetSettings

OPTIONS = ("bootstrap_servers", *CLIENT_OPTIONS)


def admin_settings(bootstrap_servers: str | Iterable[str] | None, options: Mapping[str, Any]) -> NetSettings:
    """Build the settings from the user's options, in our names or Kafka's; raise ConfigError if invalid."""
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    if bootstrap_servers is not None:
        values["bootstrap_servers"] = bootstrap_servers
    for name, value in options.items():
        for option, translated in parse_option(name, value, options, OPTIONS, CONSUMER_OPTIONS).items():
            if option not in OPTIONS:
                raise ConfigError(f"{name} is an option of consumers, not of AdminClient: leave it out")
            if option in values:
                raise ConfigError(f"{names.get(option, option)} and {name} both set {option}: give only one")
            values[option], names[option] = translated, name
    servers = values.pop("bootstrap_servers", None)
    if not servers:
        raise ConfigError('bootstrap_servers is missing: write "localhost:9092"')
    return NetSettings.parse(servers, **values)
