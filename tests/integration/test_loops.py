"""A random user of both consumers, with real brokers: what it has finished is accepted, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from kshare import sync
from tests.helpers.loop_checker import check_async, check_blocking
from tests.integration.conftest import FreshGroup, FreshTopic
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.timeout(240)]
STEPS = 150


@pytest.fixture
def producer(kafka: Cluster) -> Iterator[sync.Producer]:
    with sync.Producer(kafka.bootstrap) as opened:
        yield opened


def writing(producer: sync.Producer, values: list[bytes], topic: str) -> None:
    for value in values:
        producer.enqueue(topic, value)
    producer.flush()


def _one_of(seeds: range) -> list[Any]:
    """The others only in long runs."""
    return [seeds[0], *(pytest.param(seed, marks=pytest.mark.long) for seed in seeds[1:])]


@pytest.mark.parametrize("seed", _one_of(range(100, 103)))
def test_a_random_user_of_the_synchronous_consumer(
    kafka: Cluster, producer: sync.Producer, fresh_topic: FreshTopic, fresh_group: FreshGroup, seed: int
) -> None:
    topic = fresh_topic(partitions=2)
    check_blocking(
        kafka.bootstrap, topic, fresh_group(), lambda values: writing(producer, values, topic), seed, STEPS
    )


@pytest.mark.parametrize("seed", _one_of(range(200, 203)))
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_random_user_of_the_async_consumer(
    kafka: Cluster,
    producer: sync.Producer,
    fresh_topic: FreshTopic,
    fresh_group: FreshGroup,
    seed: int,
    backend: str,
) -> None:
    topic, group = fresh_topic(partitions=2), fresh_group()

    async def check() -> None:
        await check_async(
            kafka.bootstrap, topic, group, lambda values: writing(producer, values, topic), seed, STEPS
        )

    anyio.run(check, backend=backend)
