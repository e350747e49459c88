"""Topics and groups that don't exist: error messages, and checks before a command waits for a topic's records.

Without the checks it would wait for ever: a group may subscribe to any name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TypeVar

import anyio

from kshare.admin.client import AdminClient
from kshare.admin.results import GroupListing
from kshare.admin.routing import Router
from kshare.admin.topics import list_topics
from kshare.cli.terminal.failure import Failure
from kshare.errors import BrokerError, KshareError
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.topic_names import what_to_use
from kshare.wording import did_you_mean, no_group, shell_word

T = TypeVar("T")

_LOOKS, _PAUSE_S = 3, 0.3
"""A topic that was created a moment ago isn't known to every broker yet."""


async def require_topics(
    settings: NetSettings, names: Iterable[str], *, suggest_creation: bool = True
) -> None:
    """Raises Failure for topics that don't exist. Other errors are reported when the topics are read."""
    async with Pool(settings) as pool:
        await pool.bootstrap()
        router = Router(pool, settings.request_timeout)
        missing = [name for name in dict.fromkeys(names) if not await topic_exists(router, name)]
        if missing:
            known = await visible_topics(router)
            raise Failure("; ".join(_complaint(name, known, suggest_creation) for name in missing))


async def visible_topics(router: Router) -> list[str]:
    return [topic.topic for topic in await list_topics(router, with_internal=True)]


async def topic_exists(router: Router, name: str) -> bool:
    """Doesn't create it. Raises Failure for an invalid name; any other error counts as existing."""
    for look in range(_LOOKS):
        if look:
            await anyio.sleep(_PAUSE_S)
        try:
            await router.metadata([name])
        except BrokerError as error:
            if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            if error.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
                raise Failure(f"{name!r} is not a valid topic name: {what_to_use(name)}") from error
        return True
    return False


async def topics_explained(
    error: KshareError, names: Iterable[str], list_all: Callable[[], Awaitable[Collection[str]]]
) -> Failure | KshareError:
    """The error to raise in place of this one, which concerns some of these topics. `list_all` lists all topics."""
    if not isinstance(error, BrokerError) or error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return error
    try:
        known = sorted(await list_all())
    except KshareError:
        return error
    missing = [name for name in dict.fromkeys(names) if name not in known]
    if not missing:
        return error  # it has no such partition, or the group has no offsets in it
    return Failure("; ".join(_complaint(name, known, suggest_creation=False) for name in missing))


async def group_explained(
    error: KshareError, name: str, list_all: Callable[[], Awaitable[Sequence[GroupListing]]]
) -> Failure | KshareError:
    """The error to raise in place of this one. `list_all` lists groups of every type."""
    if not isinstance(error, BrokerError) or error.code != ErrorCode.GROUP_ID_NOT_FOUND:
        return error
    try:
        listed = await list_all()
    except KshareError:
        return error
    if any(group.group == name for group in listed):
        return error  # it isn't a share group
    return Failure(no_group(name, [group.group for group in listed if group.type.lower() == "share"]))


async def explaining(router: Router, names: Iterable[str], work: Awaitable[T]) -> T:
    """Wait for work on these topics, and raise the errors that explain its own."""
    try:
        return await work
    except BrokerError as error:
        raise await topics_explained(error, names, lambda: visible_topics(router)) from error


async def explained_to(admin: AdminClient, error: KshareError, names: Iterable[str]) -> Failure | KshareError:
    """As `topics_explained`."""

    async def list_all() -> list[str]:
        return [topic.topic for topic in await admin.list_topics(with_internal=True)]

    return await topics_explained(error, names, list_all)


def _complaint(name: str, known: list[str], suggest_creation: bool) -> str:
    create = f"kshare topics create {shell_word(name)}"
    suggestion = did_you_mean(name, known, 1)
    if not suggest_creation:
        return f"there is no topic {name}{suggestion}"
    if suggestion:
        return f"there is no topic {name}{suggestion} To create it: {create}"
    return f"there is no topic {name}: create it with {create}"
