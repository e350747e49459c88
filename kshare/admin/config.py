"""The options of an AdminClient: where the cluster is and how to connect, in our names or in Kafka's.

Options of consumers raise ConfigError, so that none is silently ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kshare.client.config import OPTIONS as CONSUMER_OPTIONS
from kshare.client.given_options import given_options
from kshare.client.kafka_names import parse_option
from kshare.net.settings import CLIENT_OPTIONS, NetSettings
from kshare.options.mistakes import Mistakes

OPTIONS = ("bootstrap_servers", *CLIENT_OPTIONS)
_ANY_SERVER = "localhost:9092"
"""To check everything else."""


def admin_settings(bootstrap_servers: str | Iterable[str] | None, options: Mapping[str, Any]) -> NetSettings:
    """Build the settings from the user's options, in our names or Kafka's. Raises ConfigError with all mistakes."""
    mistakes = Mistakes()
    values, attempted = given_options(
        "AdminClient",
        bootstrap_servers,
        options,
        lambda name, value: parse_option(name, value, options, OPTIONS, CONSUMER_OPTIONS),
        OPTIONS,
        mistakes,
    )
    with mistakes:
        settings = net_settings(values, attempted)
    mistakes.raise_all()
    return settings


def net_settings(values: dict[str, Any], attempted: Collection[str]) -> NetSettings:
    """The settings from options in our names. Raises ConfigError with all mistakes, unless they are `attempted`."""
    mistakes = Mistakes()
    servers = values.pop("bootstrap_servers", None)
    if not servers and "bootstrap_servers" not in attempted:
        mistakes.add('bootstrap_servers is missing: write "localhost:9092"')
    with mistakes:
        settings = NetSettings.parse_given(servers or _ANY_SERVER, values, attempted)
    mistakes.raise_all()
    return settings
