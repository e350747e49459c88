"""A real 4.4.0 broker and the embedded one response alike about members of share groups and classic groups.

`test_share_conversation` compares all of share groups on 4.3.1. Here are the scripts about the life of groups, which
4.4 changed: the next member of an empty share group doesn't wait for an assignment interval.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.conftest import AS_IN_KAFKA, EmbeddedCluster
from tests.integration.conversation import classic_scripts
from tests.integration.conversation.group_scripts import (
    a_members_life,
    members_in_turn,
    sessions_end,
    two_members,
)
from tests.integration.conversation.script_book import Script, tell_both
from tools.kafka.cluster import Cluster
from tools.kafka.jars import install

pytestmark = [pytest.mark.kafka]

RELEASE = "4.4.0"


@pytest.fixture(scope="module")
def real() -> Iterator[tuple[str, int]]:
    install(RELEASE)
    with Cluster(RELEASE) as cluster:
        yield cluster.nodes[0].address()


@pytest.fixture(scope="module")
def embedded() -> Iterator[tuple[str, int]]:
    with EmbeddedCluster(release="4.4", settings=AS_IN_KAFKA) as broker:
        yield broker.nodes[0].address()


@pytest.mark.parametrize(
    "script", [a_members_life, two_members, members_in_turn, sessions_end, *classic_scripts.SCRIPTS]
)
def test_both_brokers_respond_alike(script: Script, real: tuple[str, int], embedded: tuple[str, int]) -> None:
    expected, found = tell_both(script, real, embedded)
    assert found == expected
