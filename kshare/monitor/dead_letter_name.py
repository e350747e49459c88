"""Checks the name of a dead-letter topic: brokers accept any name, but write only to those with their prefix."""

from __future__ import annotations

from kshare.admin import configs
from kshare.admin.configs import ConfigResource
from kshare.admin.routing import Router
from kshare.errors import ConfigError, NotAuthorized
from kshare.monitor.dead_letter_topics import PREFIX
from kshare.monitor.settings import DEAD_LETTER_TOPIC


async def require_dead_letter_name(router: Router, topic: str) -> None:
    """Raises ConfigError for a name without the brokers' prefix; brokers before Kafka 4.4 have none."""
    node = await router.any_node()
    try:
        found = await configs.describe(router, ConfigResource.BROKER, str(node), node=node, keys=[PREFIX])
    except NotAuthorized:
        return
    prefix = next((one.value for one in found if one.name == PREFIX), None) or ""
    if not topic.startswith(prefix):
        raise ConfigError(
            f"{DEAD_LETTER_TOPIC}={topic} was not set: brokers write dead letters only to topics whose names begin "
            f"with {prefix!r} (their {PREFIX}), and drop them otherwise; use {prefix}{topic}"
        )
