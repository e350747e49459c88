"""The options of an AdminClient: where the cluster is and how to connect, in our names or in Kafka's.

Options of consumers raise ConfigError, so that none is silently ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kshare.client.config import OPTIONS as CONSUMER_OPTIONS
from kshare.client.given_options import given_options
from kshare.client.kafka_names import parse_option
from kshare.errors import ConfigError
from kshare.net.settings import CLIENT_OPTIONS, NetSettings

OPTIONS = ("bootstrap_servers", *CLIENT_OPTIONS)


def admin_settings(bootstrap_servers: str | Iterable[str] | None, options: Mapping[str, Any]) -> NetSettings:
    """Build the settings from the user's options, in our names or Kafka's; raise ConfigError if invalid."""
    values = given_options(
        "AdminClient",
        bootstrap_servers,
        options,
        lambda name, value: parse_option(name, value, options, OPTIONS, CONSUMER_OPTIONS),
        OPTIONS,
    )
    servers = values.pop("bootstrap_servers", None)
    if not servers:
        raise ConfigError('bootstrap_servers is missing: write "localhost:9092"')
    return NetSettings.parse(servers, **values)
