"""The walks of a record through the worker, in docs/architecture.md: few rooms, never up, and the calls that happen."""

from __future__ import annotations

import tomllib
from pathlib import Path

import anyio
import pytest

from kshare.testing import Broker
from kshare.worker import Delivery, Retry, Worker
from tests.helpers.running_worker import from_the_start, running, until
from tests.helpers.walks import Place, calls_of, places_of, section, steps_of, watched

MOST_ROOMS = 8
DEADLINE_S = 20.0
SECTION = section("The walk of a record through the worker")
WALKS = {title: steps_of(SECTION, title) for title in ("Done", "Given up")}
ALL = places_of(WALKS.values())


def layers() -> list[str]:
    """Of the worker, from the highest to the lowest. What is outside of it is below."""
    page = Path(__file__).parents[2] / "pyproject.toml"
    contracts = tomllib.loads(page.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    [found] = [
        contract
        for contract in contracts
        if contract["type"] == "layers" and "kshare.worker.run" in contract["layers"]
    ]
    return [layer.replace(".", "/") for layer in found["layers"]]


LAYERS = layers()


def height(place: Place) -> int:
    if not place.path.startswith("kshare/worker/"):
        return 0
    [number] = [number for number, layer in enumerate(LAYERS) if place.path.startswith(f"{layer}/")]
    return len(LAYERS) - number


@pytest.mark.parametrize("place", sorted(set(ALL)), ids=lambda place: place.function)
def test_each_function_exists(place: Place) -> None:
    assert callable(place.found())


@pytest.mark.parametrize("title", WALKS)
def test_it_leads_through_few_rooms(title: str) -> None:
    """A room is a module of the worker."""
    rooms = {place.path for place in places_of([WALKS[title]]) if place.path.startswith("kshare/worker/")}
    assert 4 < len(rooms) <= MOST_ROOMS


@pytest.mark.parametrize("title", WALKS)
def test_it_never_leads_up(title: str) -> None:
    heights = [height(step.place) for step in WALKS[title]]
    assert heights == sorted(heights, reverse=True)
    for step in WALKS[title]:
        assert all(height(place) <= height(step.place) for place in step.asked), step


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_a_worker_makes_these_calls(kshare_broker: Broker) -> None:
    from_the_start(kshare_broker)
    kshare_broker.create_topic("orders")
    kshare_broker.produce("orders", [b"good", b"bad"])
    worker = Worker(
        kshare_broker.bootstrap,
        group="g",
        retry=Retry(attempts=1),
        dead_letters="dead",
        dead_letters_after=1e6,  # so that the rules are asked
        breaker=None,
    )

    @worker.handler("orders")
    async def ship(value: bytes, delivery: Delivery) -> None:
        if value == b"bad":
            raise ValueError

    with anyio.fail_after(DEADLINE_S), watched(ALL) as calls:
        async with running(worker):
            await until(lambda: (worker.runners[0].counts.done, worker.runners[0].counts.dead) == (1, 1))
    visible = calls_of(WALKS.values())
    assert visible - calls == set()
    assert len(visible) > 10
