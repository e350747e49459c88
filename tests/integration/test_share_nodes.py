"""Three real nodes of 4.3.1 and three embedded ones respond alike to requests for another node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.conftest import EmbeddedCluster
from tests.integration.conversation.node_scripts import SCRIPTS
from tests.integration.conversation.script_book import tell_both
from tools.kafka.cluster import Cluster
from tools.kafka.jars import install

pytestmark = [pytest.mark.kafka]

RELEASE = "4.3.1"


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
def test_the_wrong_nodes_of_both_clusters_respond_alike(
    name: str, real: tuple[str, int], embedded: tuple[str, int]
) -> None:
    expected, found = tell_both(SCRIPTS[name], real, embedded)
    assert found == expected
