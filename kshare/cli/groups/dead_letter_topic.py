"""Checks the name of a dead-letter topic: brokers accept any name, but write only to those with their prefix."""

from __future__ import annotations

from kshare.admin import configs
from kshare.admin.configs import ConfigResource
from kshare.admin.routing import Router
from kshare.cli.terminal.failure import Failure
from kshare.errors import NotAuthorized

SETTING = "errors.deadletterqueue.topic.name"
_PREFIX = "errors.deadletterqueue.topic.name.prefix"


async def require_dead_letter_name(router: Router, topic: str) -> None:
    """Raises Failure for a name without the brokers' prefix; brokers before Kafka 4.4 have none."""
    node = await router.any_node()
    try:
        found = await configs.describe(router, ConfigResource.BROKER, str(node), node=node, keys=[_PREFIX])
    except NotAuthorized:
        return
    prefix = next((one.value for one in found if one.name == _PREFIX), None) or ""
    if not topic.startswith(prefix):
        raise Failure(
            f"{SETTING}={topic} was not set: brokers write dead letters only to topics whose names begin with "
            f"{prefix!r} (their {_PREFIX}), and drop them otherwise; use {prefix}{topic}"
        )
