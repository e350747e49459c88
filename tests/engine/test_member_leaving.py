"""A consumer that closes leaves its group, also if the coordinator moves: else its partitions would stand still."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from kshare.errors import AuthenticationFailed
from kshare.net.pool import Pool
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.message import Message
from kshare.protocol.messages import (
    FindCoordinatorRequest,
    ShareAcknowledgeRequest,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.fakes.peer import HungUpError
from tests.fakes.tiny_cluster import TinyCluster
from tests.helpers.consuming import DEADLINE_S, consumer, next_of, until

pytestmark = pytest.mark.anyio

_LEAVE = -1


def leaves(cluster: TinyCluster) -> int:
    return sum(heartbeat.member_epoch == _LEAVE for heartbeat in cluster.asked(ShareGroupHeartbeatRequest))


@pytest.mark.lengthy
@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
async def test_leaving_is_tried_again_when_the_coordinator_has_moved(
    code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    async with TinyCluster("a").running() as cluster:
        async with consumer(cluster, "a") as source, anyio.create_task_group() as tasks:
            cluster.topics["a"].append(b"a0")
            await next_of(source)
            cluster.error_always[ShareGroupHeartbeatRequest] = code

            async def come_back() -> None:
                await until(lambda: leaves(cluster) == 2)
                del cluster.error_always[ShareGroupHeartbeatRequest]

            tasks.start_soon(come_back)
            with anyio.fail_after(DEADLINE_S):
                await source.close()
        assert leaves(cluster) == 3
    assert "couldn't leave" not in caplog.text


async def test_leaving_is_tried_again_when_the_connection_ends(caplog: pytest.LogCaptureFixture) -> None:
    async with TinyCluster("a").running() as cluster:
        cut = cut_at_first_leave(cluster)
        async with consumer(cluster, "a") as source:
            cluster.topics["a"].append(b"a0")
            await next_of(source)
            cluster.spoil = cut
            with anyio.fail_after(DEADLINE_S):
                await source.close()
        assert leaves(cluster) == 2
    assert "couldn't leave" not in caplog.text


@pytest.mark.lengthy
async def test_an_error_of_the_background_heartbeats_does_not_delay_leaving(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go on while the group is left. One had the only request under way, and its error wasn't said."""
    ask, refuses = Pool.ask, False

    async def refuse(pool: Pool, node: int | None, request: Any, **options: Any) -> Any:
        if refuses and isinstance(request, FindCoordinatorRequest):
            await anyio.sleep(0.01)
            raise AuthenticationFailed("the credentials were revoked")
        return await ask(pool, node, request, **options)

    monkeypatch.setattr(Pool, "ask", refuse)
    async with TinyCluster("a").running() as cluster, consumer(cluster, "a") as source:
        cluster.topics["a"].append(b"a0")
        await next_of(source)
        cluster.error_always[ShareGroupHeartbeatRequest] = ErrorCode.NOT_COORDINATOR
        refuses = True
        began = anyio.current_time()
        await source.close()
        assert anyio.current_time() - began < source.config.close_timeout / 2
    assert "couldn't leave: the credentials were revoked" in caplog.text


@pytest.mark.lengthy
async def test_member_that_could_not_leave_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with TinyCluster("a").running() as cluster, consumer(cluster, "a") as source:
        cluster.topics["a"].append(b"a0")
        await next_of(source)
        cluster.error_always[ShareGroupHeartbeatRequest] = ErrorCode.COORDINATOR_NOT_AVAILABLE
        with anyio.fail_after(DEADLINE_S):
            await source.close()
        assert 3 < leaves(cluster) < 10
    [line] = [message for message in caplog.messages if "leave" in message]
    assert line.startswith("group g: couldn't leave: share group 'g': COORDINATOR_NOT_AVAILABLE")
    assert "share.session.timeout.ms" in line


@pytest.mark.lengthy
async def test_while_it_closes_it_acquires_nothing_from_a_broker_that_leads_only_now() -> None:
    """That would cost the records a delivery: nobody gets them."""
    async with TinyCluster("a", "b", nodes=2).running() as cluster:
        late = cluster.topics["b"]
        late.leader = -1
        late.append(b"b0")
        async with (
            consumer(cluster, "a", "b", close_timeout=2.0) as source,
            anyio.create_task_group() as tasks,
        ):
            cluster.topics["a"].append(b"a0")
            await next_of(source)
            cluster.silent_acks = True
            tasks.start_soon(source.close)
            await until(lambda: bool(cluster.asked(ShareAcknowledgeRequest)))
            late.move(2)
        assert late.deliveries == [0]


def cut_at_first_leave(cluster: TinyCluster) -> Callable[[Message, bytearray], bytearray]:
    """The first response to a member that leaves isn't one, and its connection ends."""
    was_cut = False

    def spoil(response: Message, frame: bytearray) -> bytearray:
        nonlocal was_cut
        if isinstance(response, ShareGroupHeartbeatResponse) and leaves(cluster) and not was_cut:
            was_cut = True
            raise HungUpError
        return frame

    return spoil
