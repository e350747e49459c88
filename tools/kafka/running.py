"""The clusters that this process has started. Imports nothing else of this package, for code that only watches them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol


class WatchedNode(Protocol):
    """One broker, as seen by code that watches it."""

    @property
    def id(self) -> int: ...
    @property
    def folder(self) -> Path: ...
    @property
    def log(self) -> Path: ...
    @property
    def is_running(self) -> bool: ...
    @property
    def is_expected(self) -> bool:
        """Whether it has to respond: it was ready, and hasn't been stopped or paused since."""
        ...

    def address(self) -> tuple[str, int]: ...
    def ask_for_threads(self) -> None:
        """Make it write a thread dump to its log."""
        ...


class WatchedCluster(Protocol):
    @property
    def release(self) -> str: ...
    @property
    def nodes(self) -> Sequence[WatchedNode]: ...


clusters: list[WatchedCluster] = []
"""Running clusters, in the order in which they were started."""


def expected_nodes() -> Iterator[tuple[WatchedCluster, WatchedNode]]:
    """Yield every broker that has to respond now."""
    for cluster in clusters:
        for node in cluster.nodes:
            if node.is_expected:
                yield cluster, node
