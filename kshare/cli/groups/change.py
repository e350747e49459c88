"""Changes made by `kshare groups`: resets and deletes offsets, changes settings, deletes groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import typer

from kshare.admin.client import AdminClient
from kshare.admin.offsets import ResetPoint
from kshare.admin.results import OffsetReset
from kshare.cli.cluster.connection import Cluster
from kshare.cli.cluster.each_name import for_each_name
from kshare.cli.cluster.known_names import explained_to, group_explained
from kshare.cli.terminal.arguments import Topics, written_time
from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.table import print_done, show, show_json
from kshare.errors import BrokerError, ConfigError, KshareError
from kshare.monitor.dead_letter_topics import DEAD_LETTER_TOPIC, require_dead_letter_name
from kshare.protocol.error_codes import ErrorCode
from kshare.wording import no_group

_OF_CONSUMERS = ("auto.offset.reset", "heartbeat.interval.ms", "isolation.level", "session.timeout.ms")
"""Settings that share groups have with `share.` before the name."""


def point(to_earliest: bool, to_latest: bool, to_datetime: str | None, to_offset: int | None) -> ResetPoint:
    """The reset point. Exactly one must be given."""
    given: list[ResetPoint] = []
    if to_earliest:
        given.append("earliest")
    if to_latest:
        given.append("latest")
    if to_datetime is not None:
        given.append(written_time("--to-datetime", to_datetime))
    if to_offset is not None:
        given.append(to_offset)
    if len(given) != 1:
        raise typer.BadParameter(
            "give exactly one of --to-earliest, --to-latest, --to-datetime and --to-offset"
        )
    return given[0]


def reset_offsets(
    cluster: Cluster, group: str, to: ResetPoint, topics: Topics | None, is_dry_run: bool, is_json: bool
) -> None:
    async def work(admin: AdminClient) -> list[OffsetReset]:
        try:
            return await admin.reset_share_group_offsets(group, to, topics, dry_run=is_dry_run)
        except KshareError as error:
            if topics is None and isinstance(error, ConfigError):
                await _require_topics_read(admin, group)
            raise await explained_to(admin, error, topics or ()) from error

    changes = cluster.run(work)
    screen = Screen()
    if is_json:
        show_json(screen, {"group": group, "executed": not is_dry_run, "offsets": changes})
    else:
        rows = [(group, change.topic, change.partition, change.before, change.after) for change in changes]
        heads = ["GROUP", "TOPIC", "PARTITION", "BEFORE", "AFTER"]
        show(screen, heads, rows, ["PARTITION", "BEFORE", "AFTER"])
        if is_dry_run:
            screen.line("nothing was changed: add --execute to do it")
    screen.done()


async def _require_topics_read(admin: AdminClient, group: str) -> None:
    """Raises Failure if the group has read none, so that they have to be named."""
    if await admin.share_group_offsets(group):
        return
    names = [listed.group for listed in await admin.list_groups()]
    if group not in names:
        raise Failure(
            f"{no_group(group, names)}; to set offsets before its first consumer joins, add --topic"
        )
    raise Failure(f"group {group} has read no topic yet: name the topics with --topic")


def delete_offsets(cluster: Cluster, group: str, topics: Sequence[str], is_json: bool) -> None:
    async def work(admin: AdminClient) -> None:
        try:
            await admin.delete_share_group_offsets(group, topics)
        except KshareError as error:
            raise await explained_to(admin, error, topics) from error

    cluster.run(work)
    text = f"{group}: deleted offsets of {', '.join(topics)}"
    print_done(is_json, {"group": group, "topics": list(topics)}, text)


def delete(cluster: Cluster, names: Sequence[str], is_json: bool) -> None:
    async def explained(admin: AdminClient, error: KshareError, name: str) -> Exception:
        return await group_explained(error, name, lambda: admin.list_groups(types=()))

    for_each_name(cluster, names, AdminClient.delete_share_group, explained, "deleted", is_json)


def change_config(cluster: Cluster, group: str, changes: Mapping[str, str | None], is_json: bool) -> None:
    for name in _OF_CONSUMERS:
        if name in changes:
            raise Failure(f"share groups have no setting {name}: write share.{name}; nothing was changed")
    topic = changes.get(DEAD_LETTER_TOPIC)
    if topic:
        try:
            cluster.run_routed(lambda router: require_dead_letter_name(router, topic))
        except ConfigError as error:
            raise Failure(*error.lines) from None
    try:
        cluster.run(lambda admin: admin.alter_group_config(group, changes))
    except BrokerError as error:
        if error.code != ErrorCode.INVALID_CONFIG or len(changes) == 1:
            raise
        raise Failure(f"{error}; nothing was changed") from error
    text = ", ".join(
        f"{name} is unset" if value is None else f"{name} is {value}" for name, value in changes.items()
    )
    print_done(is_json, {"group": group, "changed": dict(changes)}, f"{group}: {text}")
