"""The walk of a record in docs/architecture.md: few packages, one direction, and the calls that really happen."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import anyio
import pytest

from kshare import ShareConsumer
from tests.fakes.tiny_cluster import TinyCluster

PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## The walk of a record\n")[2].partition("\n## ")[0]
ROOMS = re.findall(r"^\| `(kshare/\w+)(?:\.py)?` \|", PAGE, flags=re.MULTILINE)
"""The packages, from the lowest layer to the highest."""
MOST_ROOMS = 7
DEADLINE_S = 20.0


class Place(NamedTuple):
    """A function and its file."""

    path: str
    function: str

    @property
    def room(self) -> str:
        return "/".join(self.path.split("/")[:2])

    def found(self) -> Any:
        value: Any = import_module(self.path.removesuffix(".py").replace("/", "."))
        for name in self.function.split("."):
            value = getattr(value, name)
        return value

    def code(self) -> CodeType | None:
        """None if it is compiled, because calls of compiled functions can't be traced."""
        found = self.found()
        return found.__code__ if isinstance(found, FunctionType) else None


class Step(NamedTuple):
    place: Place
    asked: tuple[Place, ...]
    is_later: bool
    """It isn't called by the previous step."""


def walk(direction: str) -> list[Step]:
    part = SECTION.partition(f"### {direction}\n")[2].partition("\n### ")[0]
    items = re.findall(r"^\d+\. (.*(?:\n   .*)*)", part, flags=re.MULTILINE)
    steps = []
    for item in items:
        first, *asked = [Place(*one) for one in re.findall(r"`(kshare/[\w/]+\.py)`\s+`([\w.]+)`", item)]
        steps.append(Step(first, tuple(asked), "*Later*" in item))
    return steps


WALKS = {"In": walk("In"), "Out": walk("Out")}
ALL = [place for steps in WALKS.values() for step in steps for place in (step.place, *step.asked)]


def test_both_directions_are_described() -> None:
    assert [len(steps) > 4 for steps in WALKS.values()] == [True, True]


@pytest.mark.parametrize("place", sorted(set(ALL)), ids=lambda place: place.function)
def test_each_function_exists(place: Place) -> None:
    assert callable(place.found())


def test_it_leads_through_few_packages() -> None:
    assert {place.room for place in ALL} <= set(ROOMS)
    assert len({place.room for place in ALL}) <= MOST_ROOMS


@pytest.mark.parametrize(("direction", "sign"), [("In", 1), ("Out", -1)])
def test_the_walk_passes_the_layers_in_one_direction(direction: str, sign: int) -> None:
    heights = [sign * ROOMS.index(step.place.room) for step in WALKS[direction]]
    assert heights == sorted(heights)


@pytest.mark.parametrize("direction", WALKS)
def test_a_step_calls_nothing_in_a_higher_layer(direction: str) -> None:
    above = [
        place
        for step in WALKS[direction]
        for place in step.asked
        if ROOMS.index(place.room) > ROOMS.index(step.place.room)
    ]
    assert above == []


@contextmanager
def watched() -> Iterator[set[tuple[Place, Place]]]:
    """Which functions of the walk were called by which others of it, directly or indirectly."""
    places = {place.code(): place for place in ALL}
    calls: set[tuple[Place, Place]] = set()

    def watch(frame: FrameType, event: str, argument: object) -> None:
        called = places.get(frame.f_code) if event == "call" else None
        caller = frame.f_back
        while called is not None and caller is not None:
            found = places.get(caller.f_code)
            if found is not None:
                calls.add((found, called))
            caller = caller.f_back

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield calls
    finally:
        sys.setprofile(before)


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_a_consumer_makes_these_calls() -> None:
    async with TinyCluster("t").running() as cluster:
        cluster.topics["t"].append(b"a", b"b", b"c")
        options: dict[str, Any] = {"group": "g", "topics": "t", "acknowledgement": "explicit"}
        with anyio.fail_after(DEADLINE_S), watched() as calls:
            async with ShareConsumer(cluster.bootstrap, **options) as consumer:
                left = 3
                async for record in consumer:
                    record.accept()
                    left -= 1
                    if not left:
                        break
                await consumer.commit()
    said = set()
    for steps in WALKS.values():
        for before, step in pairwise(steps):
            if not step.is_later:
                said.add((before.place, step.place))
        said.update((step.place, place) for step in steps for place in step.asked)
    visible = {(one, other) for one, other in said if one.code() and other.code()}
    assert visible - calls == set()
    assert len(visible) > 10
