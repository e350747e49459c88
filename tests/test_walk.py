"""The walk of a record in docs/architecture.md: few packages, one direction, and the calls that really happen."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest

from kshare import ShareConsumer
from tests.fakes.tiny_cluster import TinyCluster
from tests.helpers.walks import PAGE, Place, calls_of, places_of, section, steps_of, watched

PACKAGES = re.findall(r"^\| `(kshare/\w+)(?:\.py)?` \|", PAGE, flags=re.MULTILINE)
"""From the lowest layer to the highest."""
MOST_PACKAGES = 7
DEADLINE_S = 20.0
SECTION = section("The walk of a record")
WALKS = {title: steps_of(SECTION, title) for title in ("In", "Out")}
ALL = places_of(WALKS.values())


def test_both_directions_are_described() -> None:
    assert [len(steps) > 4 for steps in WALKS.values()] == [True, True]


@pytest.mark.parametrize("place", sorted(set(ALL)), ids=lambda place: place.function)
def test_each_function_exists(place: Place) -> None:
    assert callable(place.found())


def test_it_leads_through_few_packages() -> None:
    assert {place.package for place in ALL} <= set(PACKAGES)
    assert len({place.package for place in ALL}) <= MOST_PACKAGES


@pytest.mark.parametrize(("direction", "sign"), [("In", 1), ("Out", -1)])
def test_the_walk_passes_the_layers_in_one_direction(direction: str, sign: int) -> None:
    heights = [sign * PACKAGES.index(step.place.package) for step in WALKS[direction]]
    assert heights == sorted(heights)


@pytest.mark.parametrize("direction", WALKS)
def test_a_step_calls_nothing_in_a_higher_layer(direction: str) -> None:
    above = [
        place
        for step in WALKS[direction]
        for place in step.asked
        if PACKAGES.index(place.package) > PACKAGES.index(step.place.package)
    ]
    assert above == []


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_a_consumer_makes_these_calls() -> None:
    async with TinyCluster("t").running() as cluster:
        cluster.topics["t"].append(b"a", b"b", b"c")
        options: dict[str, Any] = {"group": "g", "topics": "t", "acknowledgement": "explicit"}
        with anyio.fail_after(DEADLINE_S), watched(ALL) as calls:
            async with ShareConsumer(cluster.bootstrap, **options) as consumer:
                left = 3
                async for record in consumer:
                    record.accept()
                    left -= 1
                    if not left:
                        break
                await consumer.commit()
    visible = calls_of(WALKS.values())
    assert visible - calls == set()
    assert len(visible) > 10
