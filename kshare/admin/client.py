"""The administrator of share groups: what users hold. The work is in the modules beside this one, one a subject.

Every call ends within `request_timeout`, tries again what the protocol calls retriable, and raises a BrokerError with
what to do. Calls may be made side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from kshare.admin import configs, groups, offsets, topics
from kshare.admin.config import admin_settings
from kshare.admin.configs import Resource
from kshare.admin.offsets import Chosen, Point
from kshare.admin.progress import ProgressReader
from kshare.admin.results import (
    ConfigEntry,
    GroupDescription,
    GroupListing,
    OffsetReset,
    PartitionOffset,
    PartitionProgress,
    TopicListing,
    TopicPartition,
)
from kshare.admin.routing import Router
from kshare.errors import ConfigError, KshareError
from kshare.net.pool import Pool

if TYPE_CHECKING:
    from kshare.client.options import ClientOptions


class AdminClient:
    """Manages share groups. Options are those that every client takes; Kafka's dotted names are understood."""

    def __init__(
        self, bootstrap_servers: str | Iterable[str] | None = None, **options: Unpack[ClientOptions]
    ) -> None:
        self._settings = admin_settings(bootstrap_servers, options)
        self._pool: Pool | None = None

    async def __aenter__(self) -> Self:
        """Reaches a broker, or says why it can't."""
        pool = await Pool(self._settings).__aenter__()
        try:
            await pool.get_in()
        except BaseException as error:
            await pool.__aexit__(type(error), error, error.__traceback__)
            raise
        self._pool = pool
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        pool, self._pool = self._pool, None
        assert pool is not None, "entered before"
        return await pool.__aexit__(kind, error, trace)

    # --- groups

    async def list_groups(
        self, *, types: Iterable[str] = ("share",), states: Iterable[str] = ()
    ) -> list[GroupListing]:
        """By name. `types=()` lists groups of every type; `states` are such as "Stable" and "Empty"."""
        return await groups.list_groups(self._router(), types, states)

    async def describe_share_group(self, group: str) -> GroupDescription:
        return await groups.describe_share_group(self._router(), _named(group))

    async def delete_share_group(self, group: str) -> None:
        """A group with members is refused, and one of another type."""
        await self.describe_share_group(group)
        await groups.delete_group(self._router(), group)

    # --- offsets

    async def share_group_offsets(self, group: str, topics: Chosen | None = None) -> list[PartitionOffset]:
        """Of all that the group reads, or of `topics`: {"orders": None, "returns": [0, 1]}."""
        return await offsets.share_group_offsets(self._router(), _named(group), topics)

    async def share_group_progress(self, group: str, topics: Chosen | None = None) -> list[PartitionProgress]:
        """How far the group is, with what the topics have removed and the stored state of records: see there."""
        router = self._router()
        told = await offsets.share_group_offsets(router, _named(group), topics)
        return (await ProgressReader(router).read({group: told}))[group]

    async def alter_share_group_offsets(self, group: str, offsets_: Mapping[TopicPartition, int], /) -> None:
        """Where the group goes on: {("orders", 0): 42}. Only while it has no members; a new group is made."""
        await offsets.alter_offsets(self._router(), _named(group), offsets_)

    async def reset_share_group_offsets(
        self, group: str, to: Point, topics: Chosen | None = None, *, dry_run: bool = False
    ) -> list[OffsetReset]:
        """To "earliest", "latest", the first record from a datetime on, or an offset. Says what changed or would."""
        router = self._router()
        return await offsets.reset_offsets(router, _named(group), to, topics, is_dry_run=dry_run)

    async def delete_share_group_offsets(self, group: str, topics: str | Iterable[str]) -> None:
        """The group forgets these topics, and begins with them as a new group would."""
        names = [topics] if isinstance(topics, str) else list(topics)
        if not names:
            raise ConfigError('no topic is named: write ["orders"]')
        await offsets.delete_offsets(self._router(), _named(group), names)

    # --- settings

    async def group_config(self, group: str) -> list[ConfigEntry]:
        """What holds for a share group, whether it exists yet or not."""
        return await configs.group_config(self._router(), group)

    async def alter_group_config(
        self, group: str, changes: Mapping[str, str | None], *, dry_run: bool = False
    ) -> None:
        """{"share.auto.offset.reset": "earliest"}; None unsets. All of it or nothing.

        Brokers answer when it is written, and read it a moment later: only then does `group_config` show it.
        """
        router = self._router()
        await configs.alter(router, Resource.GROUP, _named(group), changes, is_trial=dry_run)

    async def topic_config(self, topic: str) -> list[ConfigEntry]:
        return await configs.describe(self._router(), Resource.TOPIC, topic)

    async def alter_topic_config(
        self, topic: str, changes: Mapping[str, str | None], *, dry_run: bool = False
    ) -> None:
        """As for groups."""
        await configs.alter(self._router(), Resource.TOPIC, topic, changes, is_trial=dry_run)

    # --- topics

    async def list_topics(self, *, with_internal: bool = False) -> list[TopicListing]:
        return await topics.list_topics(self._router(), with_internal=with_internal)

    async def create_topic(
        self,
        topic: str,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Numbers left out are the brokers' defaults."""
        await topics.create_topic(self._router(), topic, partitions, replication_factor, config or {})

    async def delete_topic(self, topic: str) -> None:
        await topics.delete_topic(self._router(), topic)

    def _router(self) -> Router:
        if self._pool is None:
            raise KshareError("the client isn't open: write `async with AdminClient(...) as admin:`")
        return Router(self._pool, self._settings.request_timeout)


def _named(group: str) -> str:
    if not isinstance(group, str) or not group:
        raise ConfigError(f"a group is a non-empty string, not {group!r}")
    return group
