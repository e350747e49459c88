"""Explores a small system in every order of its events, breadth first, and remembers which states it has seen.

Systems of coroutines can't be copied, so a state is reached again by doing its events once more from the beginning.
Because shorter lists of events come first, what is found broken is broken by the shortest list there is.
"""

from __future__ import annotations

import gc
from array import array
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import process_time
from typing import NamedTuple, Protocol

from tests.exhaustive.numbered import Numbered

_TOLD_EVERY = 5_000
"""After so many states."""


class Event(NamedTuple):
    """Something that may happen now."""

    name: str
    """In words: a list of these is what somebody reads to find a defect."""
    is_fault: bool = False
    """Whether the system has to get everything done without it."""


class System(Protocol):
    """Two systems that were made alike, and did the same events, are in the same state."""

    def events(self) -> Sequence[Event]:
        """What may happen now."""
        ...

    def do(self, name: str) -> None:
        """Let an event happen that `events` has returned."""
        ...

    def fingerprint(self) -> Hashable:
        """Equal in two states only if the same may happen from there on."""
        ...

    def problems(self) -> Iterable[str]:
        """Which promises are broken already."""
        ...

    @property
    def is_done(self) -> bool:
        """Whether everything is settled, and nothing is under way."""
        ...

    def problems_when_done(self) -> Iterable[str]:
        """Which are broken if that is so, and all may stay as it is."""
        ...

    def maker(self) -> Callable[[], System] | None:
        """What makes another one in this state. None if only its events lead there: it can't be copied."""
        ...

    def close(self) -> None:
        """It is no longer used."""
        ...


class Broken(AssertionError):
    """A promise is broken."""

    def __init__(self, problem: str, events: Sequence[str]) -> None:
        steps = "".join(f"\n  {number:2}. {event}" for number, event in enumerate(events, 1))
        super().__init__(f"{problem}, after {len(events)} events:{steps}")
        self.problem = problem
        self.events = list(events)


@dataclass(frozen=True)
class Explored:
    """What there was to explore."""

    states: int
    transitions: int
    ends: int
    """States in which everything is settled, and nothing is under way: all promises were kept."""
    depth: int
    """The length of the longest list of events that leads to a new state."""
    cpu_s: float


class _State(NamedTuple):
    number: int
    before: int
    """The number of the state that this one was first reached from."""
    event: str
    depth: int
    events: tuple[Event, ...]
    mark: int
    """The number of its fingerprint: doing the same again has to lead to the same state."""


class _Search:
    def __init__(
        self, new: Callable[[], System], most_states: int, tell: Callable[[int, int], None] | None
    ) -> None:
        self._makers: dict[int, Callable[[], System]] = {0: new}
        """For states that needn't be reached from the beginning."""
        self._most_states = most_states
        self._tell = tell
        self._states: list[_State] = []
        self._fingerprints = Numbered()
        self._numbers: dict[int, int] = {}
        """Of states, by the numbers of their fingerprints."""
        self._lists: dict[tuple[Event, ...], tuple[Event, ...]] = {}
        """Of what may happen: many states have the same one."""
        self._reached_by: list[array[int]] = []
        """For each state, those from which it is reached by an event that isn't a fault."""
        self._transitions = 0
        self._done: list[int] = []

    def run(self) -> Explored:
        began = process_time()
        first = self._makers[0]()
        try:
            self._arrive(first, -1, "")
        finally:
            first.close()
        to_do = deque(self._states)
        while to_do:
            state = to_do.popleft()
            if self._tell is not None and state.number and state.number % _TOLD_EVERY == 0:
                self._tell(len(self._states), len(to_do))
            for event in state.events:
                new = self._follow(state, event)
                if new is not None:
                    to_do.append(new)
        self._require_progress()
        return Explored(
            len(self._states),
            self._transitions,
            len(self._done),
            max(state.depth for state in self._states),
            process_time() - began,
        )

    def _follow(self, state: _State, event: Event) -> _State | None:
        """The state that the event leads to, if it is new."""
        self._transitions += 1
        system = self._again(state, is_checked=event is state.events[0])
        try:
            try:
                system.do(event.name)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
                raise Broken(problem, [*self._path(state), event.name]) from error
            known = len(self._states)
            number = self._arrive(system, state.number, event.name)
            if not event.is_fault:
                self._reached_by[number].append(state.number)
            return self._states[number] if number == known else None
        finally:
            system.close()

    def _again(self, state: _State, *, is_checked: bool) -> System:
        path: list[str] = []
        at = state
        while at.number not in self._makers:
            path.append(at.event)
            at = self._states[at.before]
        system = self._makers[at.number]()
        for name in reversed(path):
            system.do(name)
        if is_checked and self._fingerprints.number_of(system.fingerprint()) != state.mark:
            raise Broken("the same events led to another state than before", self._path(state))
        return system

    def _arrive(self, system: System, before: int, event: str) -> int:
        """The number of the state that the system is in."""
        self._require(system, before, event)
        mark = self._fingerprints.number_of(system.fingerprint())
        number = self._numbers.get(mark)
        if number is None:
            number = self._numbers[mark] = len(self._states)
            depth = 1 + self._states[before].depth if before >= 0 else 0
            events = tuple(system.events())
            events = self._lists.setdefault(events, events)
            self._states.append(_State(number, before, event, depth, events, mark))
            self._reached_by.append(array("I"))
            maker = system.maker() if number else None
            if maker is not None:
                self._makers[number] = maker
            if system.is_done:
                self._done.append(number)
            if number >= self._most_states:
                raise Broken(f"there are more than {self._most_states:,} states", self._path_to(number))
        return number

    def _require(self, system: System, before: int, event: str) -> None:
        """Also in a state that is known: what has led there may have broken something."""
        found = [*system.problems()]
        if system.is_done:
            found += system.problems_when_done()
        if found:
            raise Broken(found[0], [*self._path_to(before), event] if before >= 0 else [])

    def _require_progress(self) -> None:
        """From every state, one in which everything is settled has to be reachable without further faults."""
        can_end = set(self._done)
        to_do = [*self._done]
        while to_do:
            for before in self._reached_by[to_do.pop()]:
                if before not in can_end:
                    can_end.add(before)
                    to_do.append(before)
        for state in self._states:  # the shortest list of events first
            if state.number not in can_end:
                raise Broken("not everything can be settled any more, even without faults", self._path(state))

    def _path(self, state: _State) -> list[str]:
        return self._path_to(state.number)

    def _path_to(self, number: int) -> list[str]:
        names: list[str] = []
        while self._states[number].before >= 0:
            names.append(self._states[number].event)
            number = self._states[number].before
        return names[::-1]


def explore(
    new: Callable[[], System],
    *,
    most_states: int = 10_000_000,
    tell: Callable[[int, int], None] | None = None,
) -> Explored:
    """Explore all that `new` can become. Raises Broken, with the shortest list of events that breaks a promise.

    `most_states`: a mistake in a fingerprint would make a search endless.
    `tell` is called now and then with how many states there are so far, and how many of them are still to be explored.
    """
    with _rare_collections():
        return _Search(new, most_states, tell).run()


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Each system is a cycle of objects, and there are a hundred thousand of them."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
