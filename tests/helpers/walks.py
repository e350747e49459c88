"""Walks in docs/architecture.md: lists of functions that call one another, and whether they really do."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")


class Place(NamedTuple):
    """A function and its file."""

    path: str
    function: str

    @property
    def package(self) -> str:
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


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def steps_of(section: str, title: str) -> list[Step]:
    part = section.partition(f"### {title}\n")[2].partition("\n### ")[0]
    items = re.findall(r"^\d+\. (.*(?:\n   .*)*)", part, flags=re.MULTILINE)
    steps = []
    for item in items:
        first, *asked = [Place(*found) for found in re.findall(r"`(kshare/[\w/]+\.py)`\s+`([\w.]+)`", item)]
        steps.append(Step(first, tuple(asked), "*Later*" in item))
    return steps


def places_of(walks: Iterable[list[Step]]) -> list[Place]:
    return [place for steps in walks for step in steps for place in (step.place, *step.asked)]


def calls_of(walks: Iterable[list[Step]]) -> set[tuple[Place, Place]]:
    """Which function calls which, as far as that can be traced."""
    said = set()
    for steps in walks:
        for before, step in pairwise(steps):
            if not step.is_later:
                said.add((before.place, step.place))
        said.update((step.place, place) for step in steps for place in step.asked)
    return {(caller, called) for caller, called in said if caller.code() and called.code()}


@contextmanager
def watched(all_places: Iterable[Place]) -> Iterator[set[tuple[Place, Place]]]:
    """Which functions of the walk were called by which others of it, directly or indirectly."""
    places = {place.code(): place for place in all_places}
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
