"""Runs `kshare topics`: lists, creates and deletes topics. If one name fails, the others are still processed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import typer

from kshare.admin.client import AdminClient
from kshare.cli.cluster.connection import Cluster
from kshare.cli.cluster.known_names import listed_by, topics_explained
from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.table import show, show_json
from kshare.errors import KshareError
from kshare.protocol.json_form import uuid_text


def show_list(cluster: Cluster, with_internal: bool, is_json: bool) -> None:
    found = cluster.run(lambda admin: admin.list_topics(with_internal=with_internal))
    screen = Screen()
    if is_json:
        rows = [
            {
                "topic": one.topic,
                "topic_id": uuid_text(one.topic_id),
                "partitions": one.partitions,
                "replication_factor": one.replication_factor,
                "is_internal": one.is_internal,
            }
            for one in found
        ]
        show_json(screen, rows)
    elif found:
        cells = [(one.topic, one.partitions, one.replication_factor) for one in found]
        show(screen, ["TOPIC", "PARTITIONS", "REPLICAS"], cells, ["PARTITIONS", "REPLICAS"])
    else:
        screen.line(("there are no topics", ""))
    screen.done()


def settings(written: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in written:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--config {one}: write NAME=VALUE, as in retention.ms=3600000")
        if name in found:
            raise typer.BadParameter(f"--config {name} is given twice")
        found[name] = value
    return found


def create(
    cluster: Cluster,
    names: Sequence[str],
    partitions: int | None,
    replication_factor: int | None,
    config: Mapping[str, str],
    is_json: bool,
) -> None:
    _each(
        cluster,
        names,
        lambda admin, name: admin.create_topic(name, partitions, replication_factor, config),
        "created",
        is_json,
    )


def delete(cluster: Cluster, names: Sequence[str], is_json: bool) -> None:
    async def step(admin: AdminClient, name: str) -> None:
        if name.startswith("__") and await _is_internal(admin, name):
            raise KshareError(
                f"topic {name} is internal to Kafka and was not deleted: groups would lose their state"
            )
        await admin.delete_topic(name)

    _each(cluster, names, step, "deleted", is_json)


async def _is_internal(admin: AdminClient, name: str) -> bool:
    return any(
        topic.topic == name and topic.is_internal for topic in await admin.list_topics(with_internal=True)
    )


def _each(
    cluster: Cluster,
    names: Sequence[str],
    step: Callable[[AdminClient, str], Awaitable[None]],
    verb: str,
    is_json: bool,
) -> None:
    done: list[str] = []
    problems: list[str] = []

    async def work(admin: AdminClient) -> None:
        for name in dict.fromkeys(names):
            try:
                await step(admin, name)
            except KshareError as error:
                problems.append(str(await topics_explained(error, [name], lambda: listed_by(admin))))
            else:
                done.append(name)

    cluster.run(work)
    screen = Screen()
    if is_json:
        show_json(screen, {verb: done})
    elif done:
        screen.line((f"{verb} {', '.join(done)}", ""))
    screen.done()
    if problems:
        raise Failure("; ".join(problems))
