"""A real 4.3.1 broker and an embedded one with the same ACLs response clients without permissions alike."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kshare.protocol.error_codes import ErrorCode
from tests.integration.conftest import AS_IN_KAFKA, EmbeddedCluster
from tests.integration.conversation.access_scripts import ROOT, SCRIPTS
from tests.integration.conversation.script_book import tell
from tests.integration.conversation.talk import Entry, codes
from tools.kafka.cluster import Cluster
from tools.kafka.jars import install
from tools.kafka.listeners import USERS, Listener

pytestmark = [pytest.mark.kafka]

RELEASE = "4.3.1"
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


@pytest.fixture(scope="module")
def real() -> Iterator[tuple[str, int]]:
    install(RELEASE)
    settings = AUTHORIZER | {"super.users": f"User:ANONYMOUS;User:{ROOT.name}"}
    with Cluster(RELEASE, listeners=[Listener.SASL_PLAINTEXT], settings=settings) as cluster:
        host, _, port = cluster.bootstrap_of(Listener.SASL_PLAINTEXT).rpartition(":")
        yield host, int(port)


@pytest.fixture(scope="module")
def embedded() -> Iterator[tuple[str, int]]:
    settings = AS_IN_KAFKA | AUTHORIZER | {"super.users": f"User:{ROOT.name}"}
    users = {user.name: user.password for user in USERS}
    with EmbeddedCluster(release="4.3", settings=settings, users=users) as broker:
        yield broker.nodes[0].address()


@pytest.fixture(scope="module")
def told() -> list[Entry]:
    """All responses in this module."""
    return []


@pytest.mark.parametrize("name", SCRIPTS)
def test_both_brokers_refuse_the_same_requests(
    name: str, real: tuple[str, int], embedded: tuple[str, int], told: list[Entry]
) -> None:
    with ThreadPoolExecutor(2) as pool:
        expected, found = pool.map(lambda address: tell(SCRIPTS[name], address, ROOT), (real, embedded))
    assert found == expected
    told += expected


def test_all_three_authorization_errors_occurred(told: list[Entry]) -> None:
    """Must run after all of the above."""
    assert codes([response for _, response in told]) >= {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
