"""Three real nodes of 4.3.1 and three embedded ones respond alike to requests for another node."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.conftest import EmbeddedCluster
from tests.integration.conversation.node_scripts import SCRIPTS
from tests.integration.conversation.script_book import tell
from tools.kafka.cluster import Cluster
from tools.kafka.jars import install

pytestmark = [pytest.mark.kafka]

RELEASE = "4.3.1"

TRIES = 3
"""A node of a busy real cluster may not know a topic yet: then a script is repeated. A real difference always fails."""


@pytest.fixture(scope="module")
def real() -> Iterator[tuple[str, int]]:
    install(RELEASE)
    with Cluster(RELEASE, 3) as cluster:
        yield cluster.nodes[0].address()


@pytest.fixture(scope="module")
def embedded() -> Iterator[tuple[str, int]]:
    with EmbeddedCluster(nodes=3, release="4.3") as broker:
        yield broker.nodes[0].address()


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_wrong_nodes_of_both_clusters_answer_alike(
    name: str, real: tuple[str, int], embedded: tuple[str, int]
) -> None:
    for _ in range(TRIES):
        with ThreadPoolExecutor(2) as pool:
            expected, found = pool.map(lambda address: tell(SCRIPTS[name], address), (real, embedded))
        if found == expected:
            break
    assert found == expected
