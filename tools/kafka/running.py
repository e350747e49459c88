"""The clusters that run in this process. Light: whoever only watches them needs nothing else of the rig."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol


class WatchedNode(Protocol):
    """One broker, as those see it who watch it."""

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
        """It was ready once, and nobody has ended or frozen it since: it has to answer."""
        ...

    def address(self) -> tuple[str, int]: ...
    def ask_for_threads(self) -> None:
        """Have it write the stacks of its threads to its log."""
        ...


class WatchedCluster(Protocol):
    @property
    def release(self) -> str: ...
    @property
    def nodes(self) -> Sequence[WatchedNode]: ...


clusters: list[WatchedCluster] = []
"""In the order in which they were started."""


def expected_nodes() -> Iterator[tuple[WatchedCluster, WatchedNode]]:
    """Every broker that has to answer now."""
    for cluster in clusters:
        for node in cluster.nodes:
            if node.is_expected:
                yield cluster, node
