"""Real brokers of each release and the embedded one tell admin clients the same about transactions."""

from __future__ import annotations

import pytest

from tests.integration.conftest import EmbeddedCluster
from tests.integration.conversation import transaction_scripts
from tests.integration.conversation.script_book import EMULATED, Script, tell_both
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka]


@pytest.mark.parametrize("script", transaction_scripts.SCRIPTS)
def test_both_brokers_respond_alike(script: Script, kafka: Cluster) -> None:
    with EmbeddedCluster(release=EMULATED[kafka.release]) as broker:
        expected, found = tell_both(script, kafka.nodes[0].address(), broker.nodes[0].address())
    assert found == expected
