"""A real 4.3.1 broker and the embedded one give the same responses to the same scripts of requests.

Left out, because they differ intentionally:
- After offsets are reset, a real leader uses the old state until its next write; the embedded one is notified.
- A real broker doesn't respond at all if asked for the offsets of a partition that doesn't exist.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kshare.protocol.error_codes import ErrorCode
from tests.integration.conftest import AS_IN_KAFKA, EmbeddedCluster
from tests.integration.conversation.script_book import SCRIPTS, tell_both
from tests.integration.conversation.talk import Entry, codes
from tools.kafka.cluster import Cluster
from tools.kafka.jars import install

pytestmark = [pytest.mark.kafka]

RELEASE = "4.3.1"
REQUESTS = 500
"""All scripts together send at least this many."""
CODES = {
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.INVALID_RECORD_STATE,
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.FENCED_STATE_EPOCH,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
}
"""All error codes that one broker can be made to return through the share APIs.

Tested elsewhere: wrong leaders and coordinators (test_share_nodes), missing permissions (test_share_access). Not
tested, because no request provokes them: COORDINATOR_LOAD_IN_PROGRESS and COORDINATOR_NOT_AVAILABLE only last a moment,
and KAFKA_STORAGE_ERROR and CORRUPT_MESSAGE need a broken disk. The embedded broker returns them for injected faults.
"""
SMALL = {"group.share.max.size": "3", "group.share.max.share.sessions": "8"}


@pytest.fixture(scope="module")
def real() -> Iterator[tuple[str, int]]:
    install(RELEASE)
    with Cluster(RELEASE, settings=SMALL) as cluster:
        yield cluster.nodes[0].address()


@pytest.fixture(scope="module")
def embedded() -> Iterator[tuple[str, int]]:
    with EmbeddedCluster(release="4.3", settings=AS_IN_KAFKA | SMALL) as broker:
        yield broker.nodes[0].address()


@pytest.fixture(scope="module")
def told() -> list[Entry]:
    """All responses in this module, to be counted at its end."""
    return []


@pytest.mark.parametrize("name", SCRIPTS)
def test_both_brokers_respond_alike(
    name: str, real: tuple[str, int], embedded: tuple[str, int], told: list[Entry]
) -> None:
    expected, found = tell_both(SCRIPTS[name], real, embedded)
    assert found == expected
    told += expected


def test_all_error_codes_occurred(told: list[Entry]) -> None:
    """Every error code occurred, and enough requests were sent. Must run after all of the above."""
    assert len(told) >= REQUESTS
    assert codes([response for _, response in told]) - {0} == set(map(int, CODES))
