"""Protocol rules for a whole consumer."""

from __future__ import annotations

import base64
from typing import Any

import anyio
import pytest

from kshare import ConfigError, ShareConsumer
from kshare.engine.member import new_member_id
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest, ShareGroupHeartbeatRequest
from tests.fakes import tiny_cluster
from tests.fakes.tiny_cluster import ACCEPTED, AVAILABLE, TinyCluster

pytestmark = pytest.mark.anyio
DEADLINE_S = 20.0


def consumer(cluster: TinyCluster, **options: Any) -> ShareConsumer:
    return ShareConsumer(cluster.bootstrap, group="g", topics=["a"], acknowledgement="explicit", **options)


async def test_rule_2_an_error_of_a_whole_session_closes_its_connection_to_release_its_records() -> None:
    """A new session on the same connection wouldn't release what the old one, or that response, acquired."""
    async with TinyCluster("a").running() as cluster, consumer(cluster) as source:
        cluster.topics["a"].append(b"a0")
        with anyio.fail_after(DEADLINE_S):
            record = await anext(aiter(source))
            cluster.error_next[ShareFetchRequest] = ErrorCode.UNKNOWN_SERVER_ERROR
            again = await anext(aiter(source))
        assert (record.delivery_count, again.delivery_count) == (1, 2)


@pytest.mark.parametrize("name", ["auto.offset.reset", "auto_offset_reset"])
def test_rule_13_the_offset_reset_is_no_consumer_option_and_the_error_names_the_group_setting(
    name: str,
) -> None:
    pasted: dict[str, Any] = {name: "earliest"}
    with pytest.raises(ConfigError, match=r"share\.auto\.offset\.reset"):
        ShareConsumer("localhost:9092", group="g", topics=["a"], **pasted)


async def test_rule_16_closing_settles_releases_ends_the_session_and_leaves() -> None:
    async with TinyCluster("a").running() as cluster:
        cluster.topics["a"].append(b"a0", b"a1", b"a2")
        async with consumer(cluster) as source:
            with anyio.fail_after(DEADLINE_S):
                async for record in source:
                    if record.offset == 1:
                        break
                    record.accept()
        assert cluster.topics["a"].states == [ACCEPTED, AVAILABLE, AVAILABLE]
        last = [*cluster.asked(ShareFetchRequest), *cluster.asked(ShareAcknowledgeRequest)][-1]
        assert last.share_session_epoch == -1
        assert cluster.asked(ShareGroupHeartbeatRequest)[-1].member_epoch == -1


@pytest.mark.lengthy
async def test_rule_16_closing_is_bounded_even_if_the_broker_stops_responding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with TinyCluster("a").running() as cluster:
        cluster.topics["a"].append(b"a0")
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, close_timeout=0.5) as source:
                (await anext(aiter(source))).accept()
                monkeypatch.setattr(tiny_cluster._Node, "_response", say_nothing)


async def say_nothing(*_: object) -> None:
    await anyio.sleep_forever()


def test_measured_member_ids_have_kafkas_form() -> None:
    """4.1 doesn't accept fetches with other member ids."""
    ids = {new_member_id() for _ in range(100)}
    assert len(ids) == 100
    for id_ in ids:
        assert len(id_) == 22
        assert len(base64.urlsafe_b64decode(id_ + "==")) == 16
