"""Runs `kshare topics`: lists, creates and deletes topics. If one name fails, the others are still processed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import typer

from kshare.admin.client import AdminClient
from kshare.cli.cluster.connection import Cluster
from kshare.cli.cluster.each_name import for_each_name
from kshare.cli.cluster.known_names import explained_to
from kshare.cli.terminal.arguments import named_values
from kshare.cli.terminal.table import print_rows
from kshare.errors import KshareError
from kshare.protocol.json_form import uuid_text


def show_list(cluster: Cluster, with_internal: bool, is_json: bool) -> None:
    found = cluster.run(lambda admin: admin.list_topics(with_internal=with_internal))
    rows = [(topic.topic, topic.partitions, topic.replication_factor) for topic in found]
    print_rows(
        is_json,
        [asdict(topic) | {"topic_id": uuid_text(topic.topic_id)} for topic in found],
        ["TOPIC", "PARTITIONS", "REPLICAS"],
        rows,
        ["PARTITIONS", "REPLICAS"],
        "there are no topics",
    )


def settings(written: Sequence[str]) -> dict[str, str]:
    def refusal(text: str) -> Exception:
        return typer.BadParameter(f"--config {text}: write NAME=VALUE, as in retention.ms=3600000")

    found: dict[str, str] = {}
    for name, value in named_values(written, refusal):
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
    async def step(admin: AdminClient, name: str) -> None:
        await admin.create_topic(name, partitions, replication_factor, config)

    for_each_name(cluster, names, step, _explained, "created", is_json)


def delete(cluster: Cluster, names: Sequence[str], is_json: bool) -> None:
    async def step(admin: AdminClient, name: str) -> None:
        if name.startswith("__") and await _is_internal(admin, name):
            raise KshareError(
                f"topic {name} is internal to Kafka and was not deleted: groups would lose their state"
            )
        await admin.delete_topic(name)

    for_each_name(cluster, names, step, _explained, "deleted", is_json)


async def _is_internal(admin: AdminClient, name: str) -> bool:
    return any(
        topic.topic == name and topic.is_internal for topic in await admin.list_topics(with_internal=True)
    )


async def _explained(admin: AdminClient, error: KshareError, name: str) -> Exception:
    return await explained_to(admin, error, [name])
