"""AdminClient: manages share groups, their offsets and configuration, and topics.

Every call ends within `request_timeout`, retries errors that the protocol calls retriable, and raises other errors as a
BrokerError that says what to do. Calls may be made concurrently. Each subject has a module in this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Self, Unpack

from kshare.admin import configs, groups, offsets, topics
from kshare.admin.config import admin_settings
from kshare.admin.configs import ConfigResource
from kshare.admin.offsets import ResetPoint, TopicSelection
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
    """Manages share groups, their offsets and configuration, and topics: use it with `async with`.

    Options are those of `kshare.ClientOptions`. Kafka's own option names are understood too.
    """

    __module__ = "kshare"

    def __init__(
        self, bootstrap_servers: str | Iterable[str] | None = None, **options: Unpack[ClientOptions]
    ) -> None:
        self._settings = admin_settings(bootstrap_servers, options)
        self._pool: Pool | None = None

    async def __aenter__(self) -> Self:
        """Connect to a broker, or raise."""
        pool = await Pool(self._settings).__aenter__()
        try:
            await pool.bootstrap()
        except BaseException as error:
            await pool.__aexit__(type(error), error, error.__traceback__)
            raise
        self._pool = pool
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        pool, self._pool = self._pool, None
        assert pool is not None, "entered before"
        await pool.__aexit__(kind, error, trace)

    # --- groups

    async def list_groups(
        self, *, types: Iterable[str] = ("share",), states: Iterable[str] = ()
    ) -> list[GroupListing]:
        """List groups, sorted by name.

        `types=()` lists groups of every type. `states` lists only groups in these states: "Stable", "Empty", ...
        """
        return await groups.list_groups(self._router(), types, states)

    async def describe_share_group(self, group: str) -> GroupDescription:
        """Describe a share group and its members."""
        return await groups.describe_share_group(self._router(), _named(group))

    async def delete_share_group(self, group: str) -> None:
        """Delete a share group. Raises if it has members, or isn't a share group."""
        await self.describe_share_group(group)
        await groups.delete_group(self._router(), group)

    # --- offsets

    async def share_group_offsets(
        self, group: str, topics: TopicSelection | None = None
    ) -> list[PartitionOffset]:
        """The start offset and lag of each partition that the group has read, as its coordinator reports them.

        The coordinator learns of a new start offset late: `share_group_progress` knows which records are settled behind
        it. `topics` selects partitions: {"orders": None, "returns": [0, 1]}.
        """
        return await offsets.share_group_offsets(self._router(), _named(group), topics)

    async def share_group_progress(
        self, group: str, topics: TopicSelection | None = None
    ) -> list[PartitionProgress]:
        """How far a group has got in each partition.

        Like `share_group_offsets`, with the stored state of records and what retention has removed.
        """
        router = self._router()
        reported = await offsets.share_group_offsets(router, _named(group), topics)
        return (await ProgressReader(router).read({group: reported}))[group]

    async def alter_share_group_offsets(self, group: str, offsets_: Mapping[TopicPartition, int], /) -> None:
        """Set the offsets at which a group continues: {("orders", 0): 42}.

        The group must have no members. If it doesn't exist, it is created.
        """
        await offsets.alter_offsets(self._router(), _named(group), offsets_)

    async def reset_share_group_offsets(
        self, group: str, to: ResetPoint, topics: TopicSelection | None = None, *, dry_run: bool = False
    ) -> list[OffsetReset]:
        """Set the offsets of a group to "earliest", "latest", a datetime or an offset.

        A datetime stands for the first record at or after it. Returns the offsets before and after; `dry_run` changes
        nothing.
        """
        router = self._router()
        return await offsets.reset_offsets(router, _named(group), to, topics, is_dry_run=dry_run)

    async def delete_share_group_offsets(self, group: str, topics: str | Iterable[str]) -> None:
        """Make a group forget topics. If it reads them again, it starts as a new group would."""
        names = [topics] if isinstance(topics, str) else list(topics)
        if not names:
            raise ConfigError('no topics are given: write ["orders"]')
        await offsets.delete_offsets(self._router(), _named(group), names)

    # --- settings

    async def group_config(self, group: str) -> list[ConfigEntry]:
        """The configuration in force for a share group, even if the group doesn't exist yet."""
        return await configs.group_config(self._router(), group)

    async def alter_group_config(
        self, group: str, changes: Mapping[str, str | None], *, dry_run: bool = False
    ) -> None:
        """Change the configuration of a group: {"share.auto.offset.reset": "earliest"}. None removes a setting.

        Either all changes are made or none. Brokers apply them a moment after they respond, so `group_config` may
        return the old values for a short time.
        """
        router = self._router()
        await configs.alter(router, ConfigResource.GROUP, _named(group), changes, is_trial=dry_run)

    async def topic_config(self, topic: str) -> list[ConfigEntry]:
        """The configuration in force for a topic."""
        return await configs.describe(self._router(), ConfigResource.TOPIC, topic)

    async def alter_topic_config(
        self, topic: str, changes: Mapping[str, str | None], *, dry_run: bool = False
    ) -> None:
        """Change the configuration of a topic; see `alter_group_config`."""
        await configs.alter(self._router(), ConfigResource.TOPIC, topic, changes, is_trial=dry_run)

    # --- topics

    async def list_topics(self, *, with_internal: bool = False) -> list[TopicListing]:
        """List topics, sorted by name."""
        return await topics.list_topics(self._router(), with_internal=with_internal)

    async def create_topic(
        self,
        topic: str,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic. Without `partitions` or `replication_factor`, the brokers' defaults apply."""
        await topics.create_topic(self._router(), topic, partitions, replication_factor, config or {})

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        await topics.delete_topic(self._router(), topic)

    def _router(self) -> Router:
        if self._pool is None:
            raise KshareError("the client isn't open: write `async with AdminClient(...) as admin:`")
        return Router(self._pool, self._settings.request_timeout)


def _named(group: str) -> str:
    if not isinstance(group, str) or not group:
        raise ConfigError(f"the group must be a non-empty string, not {group!r}")
    return group
