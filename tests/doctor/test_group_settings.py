"""What is said of groups that have settled nothing yet."""

from __future__ import annotations

from collections.abc import Iterable

import anyio
import pytest

from kshare import ShareConsumer
from kshare.admin.routing import Router
from kshare.doctor.check_result import CheckLevel
from kshare.doctor.group_settings import group_settings
from kshare.protocol.messages import MetadataResponse
from kshare.testing import Broker
from tests.doctor.conftest import RunCheck


def test_a_group_that_was_never_used_would_start_at_the_end(kshare_broker: Broker, check: RunCheck) -> None:
    (found,) = check(group_settings, "new")
    assert found.level is CheckLevel.WARNING
    assert "it has read nothing yet" in found.text
    assert found.todo == (
        f"kshare groups config set new share.auto.offset.reset=earliest --bootstrap-server {kshare_broker.bootstrap}",
    )


@pytest.mark.lengthy
def test_a_group_whose_members_have_settled_nothing_must_lose_them_first(
    kshare_broker: Broker, check: RunCheck
) -> None:
    async def join() -> None:
        async with ShareConsumer(kshare_broker.bootstrap, group="idle", topics=["orders"]) as consumer:
            with anyio.move_on_after(0.5):
                await anext(consumer.batches())

    kshare_broker.create_topic("orders", 1)
    anyio.run(join)
    (found,) = check(group_settings, "idle")
    assert found.level is CheckLevel.WARNING
    assert "it has settled nothing yet" in found.text
    assert "no effect until they have left" in found.text


@pytest.mark.lengthy
def test_all_topics_are_requested_once_for_all_groups(
    kshare_broker: Broker, check: RunCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Iterable[str] | None] = []
    metadata = Router.metadata

    async def counted(
        self: Router, topics: Iterable[str] | None, deadline: float | None = None
    ) -> MetadataResponse:
        asked.append(topics)
        return await metadata(self, topics, deadline)

    async def join_all() -> None:
        for name in names:
            async with ShareConsumer(kshare_broker.bootstrap, group=name, topics=["orders"]) as consumer:
                with anyio.move_on_after(0.3):
                    await anext(consumer.batches())

    kshare_broker.create_topic("orders", 1)
    names = ("a", "b", "c")
    anyio.run(join_all)
    monkeypatch.setattr(Router, "metadata", counted)
    check(group_settings, *names)
    assert asked.count(None) == 1
