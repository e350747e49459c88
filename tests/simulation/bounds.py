"""Bounds of what any program may do: requests and log lines in a time, and what it leaves behind when it has closed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

MOST_REQUESTS = 200
"""How many requests a process may send in a second that bring nothing: no records, no decisions, nothing new to write.
Attempts to connect count, too."""
MOST_IN_A_MINUTE = 600
"""The same for a minute in a slow simulation, for each node of the cluster: fetches wait for half a second, and after a
fault, each client connects again and again for a while."""
MOST_LINES = 80
"""How many lines a process may log in ten seconds. There are about twenty kinds of lines, some of them for each
partition: of each, the first one at once, then a summary, and one more when a worker ends."""
_LINES_S = 10.0


class Traffic:
    """When each process sent requests that brought nothing, and which."""

    def __init__(self) -> None:
        self._idle: dict[str, list[tuple[float, str]]] = defaultdict(list)

    def note(self, owner: str, at: float, what: str) -> None:
        self._idle[owner].append((at, what))

    def busy_loops(self) -> Iterable[tuple[str, str]]:
        """The processes with busy loops, and what to say of each."""
        return self._more_than(MOST_REQUESTS, 1.0, "a second")

    def chatty(self, nodes: int) -> Iterable[tuple[str, str]]:
        """The same for those who ask too much for a minute."""
        return self._more_than(MOST_IN_A_MINUTE * nodes, 60.0, "a minute")

    def _more_than(self, most: int, seconds: float, time: str) -> Iterable[tuple[str, str]]:
        for owner, requests in self._idle.items():
            count, end = most_within(sorted(at for at, _ in requests), seconds)
            if count > most:
                kinds = Counter(what for at, what in requests if end - seconds <= at <= end)
                said = ", ".join(f"{number} {what}" for what, number in kinds.most_common(3))
                yield owner, f"{owner}: {count} requests within {time}, until {end:.3f}: {said}"


def noisy(logged: Mapping[str, Sequence[tuple[float, str]]]) -> Iterable[str]:
    """`logged`: the lines of each process."""
    for owner, lines in logged.items():
        count, end = most_within([at for at, _ in lines], _LINES_S)
        if count > MOST_LINES:
            yield f"{owner}: {count} lines within {_LINES_S:g} s, until {end:.3f}, such as {lines[-1][1]!r}"


def most_within(times: Sequence[float], seconds: float) -> tuple[int, float]:
    """The largest number of these ascending times within so many seconds, and the last of them."""
    most, end, first = 0, 0.0, 0
    for index, at in enumerate(times):
        while at - times[first] > seconds:
            first += 1
        if index - first + 1 > most:
            most, end = index - first + 1, at
    return most, end
