"""The search itself, on systems that are small enough to count by hand."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import pytest

from tests.exhaustive.explorer import Broken, Event, System, explore


class Steps:
    """Two walkers take two steps each. `forbidden`: where they must not both be."""

    def __init__(self, forbidden: tuple[int, int] | None = None, goal: int = 2) -> None:
        self.at = [0, 0]
        self.forbidden = forbidden
        self.goal = goal

    def events(self) -> Sequence[Event]:
        found = [Event(f"walker {number} goes on") for number, at in enumerate(self.at) if at < self.goal]
        return [*found, Event("both are put back", is_fault=True)]

    def do(self, name: str) -> None:
        if name == "both are put back":
            self.at = [0, 0]
        else:
            self.at[int(name.split()[1])] += 1

    def fingerprint(self) -> Hashable:
        return tuple(self.at)

    def problems(self) -> Iterable[str]:
        if tuple(self.at) == self.forbidden:
            yield "they have met"

    @property
    def is_done(self) -> bool:
        return self.at == [2, 2]

    def problems_when_done(self) -> Iterable[str]:
        return ()

    def maker(self) -> Callable[[], System] | None:
        return None

    def close(self) -> None:
        """Nothing is open."""


def test_every_state_is_counted_once() -> None:
    found = explore(Steps)
    assert (found.states, found.transitions, found.ends, found.depth) == (9, 12 + 9, 1, 4)


def test_what_breaks_a_promise_is_the_shortest_list_of_events() -> None:
    with pytest.raises(Broken, match="they have met, after 3 events") as found:
        explore(lambda: Steps(forbidden=(2, 1)))
    assert sorted(found.value.events) == ["walker 0 goes on", "walker 0 goes on", "walker 1 goes on"]


def test_a_state_without_a_way_to_the_end_is_found() -> None:
    with pytest.raises(Broken, match="not everything can be settled any more"):
        explore(lambda: Steps(goal=1))


def test_a_system_that_does_something_else_each_time_is_refused() -> None:
    made: list[Steps] = []

    def new() -> Steps:
        made.append(Steps())
        made[-1].at = [len(made) % 2, 0]
        return made[-1]

    with pytest.raises(Broken, match="led to another state"):
        explore(new)


def test_an_endless_search_ends() -> None:
    with pytest.raises(Broken, match="more than 5 states"):
        explore(Steps, most_states=5)
