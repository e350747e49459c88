"""Whether topics exist, asked before a command waits for records of one: a group may subscribe to any name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import anyio

from kshare.admin.routing import Router
from kshare.admin.topics import list_topics
from kshare.cli.terminal.failure import Failure
from kshare.errors import BrokerError
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.error_codes import ErrorCode

_LOOKS, _PAUSE_S = 3, 0.3
"""A topic that was created a moment ago isn't known to every broker yet."""
_NEAREST = 3


async def require_topics(settings: NetSettings, names: Iterable[str]) -> None:
    """Raises Failure for those that don't exist. Other troubles are left to whoever reads the topics."""
    async with Pool(settings) as pool:
        await pool.get_in()
        router = Router(pool, settings.request_timeout)
        missing = [name for name in dict.fromkeys(names) if not await _exists(router, name)]
        if missing:
            known = [one.topic for one in await list_topics(router, with_internal=True)]
            raise Failure("; ".join(_complaint(name, known) for name in missing))


async def _exists(router: Router, name: str) -> bool:
    for look in range(_LOOKS):
        if look:
            await anyio.sleep(_PAUSE_S)
        try:
            await router.metadata([name])
        except BrokerError as error:
            if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            if error.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
                raise Failure(
                    f"{name!r} can't be a topic: names have letters, digits, '.', '_' and '-', 249 at most"
                ) from error
        return True
    return False


def _complaint(name: str, known: list[str]) -> str:
    create = f"kshare topics create {name}"
    meant = or_nearest(name, known)
    if meant:
        return f"there is no topic {name}{meant} Otherwise create it: {create}"
    return f"there is no topic {name}: create it by {create}"


def or_nearest(name: str, known: list[str]) -> str:
    """Behind the name of a topic that doesn't exist: those it may have been meant for. Empty if none is near."""
    near = get_close_matches(name, known, _NEAREST)
    return f": did you mean {' or '.join(near)}?" if near else ""
