"""How the folder of a broker is prepared: by Kafka's tool once, and then as the tool did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.kafka import node
from tools.kafka.listeners import Listener
from tools.kafka.node import Node, Ports

pytestmark = pytest.mark.java  # --quick lets no node be formatted

IDS = "meta.properties"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The arguments with which the tool was run."""
    found: list[tuple[str, ...]] = []

    def run(self: Node, cluster_id: str, arguments: Sequence[str]) -> None:
        found.append(tuple(arguments))
        folder = self.folder / "data"
        (folder / "metadata").mkdir(parents=True)
        (folder / IDS).write_text(f"cluster.id={cluster_id}\nnode.id={self.id}\ndirectory.id=x\nversion=1\n")
        (folder / "metadata" / "first").write_bytes(b"features, and users " + repr(arguments).encode())

    monkeypatch.setattr(Node, "_run_storage_tool", run)
    monkeypatch.setattr(node, "_formatted", {})
    return found


def formatted(folder: Path, number: int, cluster_id: str, *arguments: str) -> tuple[dict[str, str], bytes]:
    """Its ids, and what else is there."""
    new = Node(number, "4.4.0", folder / f"{cluster_id}-{number}", Ports({Listener.PLAINTEXT: 1}, 2), 256)
    new.format({"num.partitions": "1"}, cluster_id, arguments)
    data = new.folder / "data"
    lines = (data / IDS).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines), (data / "metadata" / "first").read_bytes()


def test_only_the_first_of_several_nodes_is_formatted_by_the_tool(
    tmp_path: Path, runs: list[tuple[str, ...]]
) -> None:
    nodes = [formatted(tmp_path, number, cluster) for cluster in ("one", "two") for number in (1, 2)]
    assert runs == [()]
    assert len({content for _, content in nodes}) == 1
    assert [(ids["cluster.id"], ids["node.id"]) for ids, _ in nodes] == [
        (cluster, number) for cluster in ("one", "two") for number in ("1", "2")
    ]
    assert {ids["version"] for ids, _ in nodes} == {"1"}
    assert len({ids["directory.id"] for ids, _ in nodes}) == len(nodes)


def test_other_users_are_written_by_the_tool_again(tmp_path: Path, runs: list[tuple[str, ...]]) -> None:
    plain, users = formatted(tmp_path, 1, "one"), formatted(tmp_path, 1, "two", "--add-scram", "somebody")
    assert runs == [(), ("--add-scram", "somebody")]
    assert plain[1] != users[1]
    assert formatted(tmp_path, 2, "two", "--add-scram", "somebody")[1] == users[1]
