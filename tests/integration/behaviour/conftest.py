"""Runs the same tests against every broker, on asyncio and on trio: see `tests/integration/conftest.py`."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from typing import Protocol

import pytest

from tests.integration.behaviour.work_queue import Broker, WorkQueue
from tests.integration.java_client import JavaClient, java_client
from tools.kafka.cluster import Cluster


class FreshQueue(Protocol):
    """Creates a topic that no other test uses, and a group that reads it from the earliest record.

    `topic` are the topic's settings, `settings` the group's.
    """

    def __call__(
        self, partitions: int = 1, topic: dict[str, str] | None = None, settings: dict[str, str] | None = None
    ) -> WorkQueue: ...


@pytest.fixture
def broker(kafka: Cluster) -> Broker:
    """Each release in turn."""
    return kafka


@pytest.fixture
def fresh_queue(broker: Broker) -> FreshQueue:
    def create(
        partitions: int = 1, topic: dict[str, str] | None = None, settings: dict[str, str] | None = None
    ) -> WorkQueue:
        name = f"{next(_numbers)}-{uuid.uuid4().hex[:6]}"
        queue = WorkQueue(broker, f"topic-{name}", f"group-{name}")
        broker.create_topic(queue.topic, partitions, settings=topic or {})
        broker.set_group_config(queue.group, _usual_settings(queue) | (settings or {}))
        return queue

    return create


_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def plain_java() -> Iterator[JavaClient]:
    with java_client() as client:
        yield client


def _usual_settings(queue: WorkQueue) -> dict[str, str]:
    settings = {"share.auto.offset.reset": "earliest"}
    if not queue.is_4_1:
        # With the default, every new member waits a second for its assignment. 4.1 assigns at once, and has no setting.
        settings["share.assignment.interval.ms"] = "0"
    return settings
