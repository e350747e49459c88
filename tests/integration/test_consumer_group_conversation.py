"""Real brokers of each release and the embedded one response alike about consumer groups of KIP-848."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.conftest import AS_IN_KAFKA, EmbeddedCluster
from tests.integration.conversation import consumer_group_scripts, group_kind_scripts
from tests.integration.conversation.script_book import EMULATED, Script, tell_both
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka]


@pytest.fixture(scope="module")
def embedded(kafka: Cluster) -> Iterator[tuple[str, int]]:
    """The embedded broker as the same release."""
    with EmbeddedCluster(release=EMULATED[kafka.release], settings=AS_IN_KAFKA) as broker:
        yield broker.nodes[0].address()


@pytest.mark.parametrize("script", [*consumer_group_scripts.SCRIPTS, *group_kind_scripts.SCRIPTS])
def test_both_brokers_respond_alike(script: Script, kafka: Cluster, embedded: tuple[str, int]) -> None:
    expected, found = tell_both(script, kafka.nodes[0].address(), embedded)
    assert found == expected
