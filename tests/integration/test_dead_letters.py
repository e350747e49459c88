"""A real 4.4.0 broker and the embedded one write the same dead letters to the same partitions."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.conftest import EmbeddedCluster
from tests.integration.conversation.dead_letter_scripts import SCRIPTS
from tests.integration.conversation.script_book import tell
from tools.kafka.cluster import Cluster
from tools.kafka.jars import install

pytestmark = [pytest.mark.kafka]

RELEASE = "4.4.0"
SETTINGS = {
    "errors.deadletterqueue.auto.create.topics.enable": "true",
    "num.partitions": "2",
    "auto.create.topics.enable": "false",
}


@pytest.fixture(scope="module")
def real() -> Iterator[tuple[str, int]]:
    install(RELEASE)
    with Cluster(RELEASE, settings=SETTINGS) as cluster:
        yield cluster.nodes[0].address()


@pytest.fixture(scope="module")
def embedded() -> Iterator[tuple[str, int]]:
    with EmbeddedCluster(release="4.4", settings=SETTINGS) as broker:
        yield broker.nodes[0].address()


@pytest.mark.parametrize("name", SCRIPTS)
def test_both_brokers_write_the_same_dead_letters(
    name: str, real: tuple[str, int], embedded: tuple[str, int]
) -> None:
    with ThreadPoolExecutor(2) as pool:
        expected, found = pool.map(lambda address: tell(SCRIPTS[name], address), (real, embedded))
    assert found == expected
