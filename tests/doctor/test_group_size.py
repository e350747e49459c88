"""Groups that are close to the most members that brokers allow."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from kshare import sync
from kshare.doctor.check_result import CheckLevel
from kshare.doctor.group_size import group_size
from kshare.testing import Broker
from tests.doctor.conftest import RunCheck

GROUP = "shippers"
SETTING = "group.share.max.size"


def join(stack: ExitStack, broker: Broker, members: int) -> None:
    for _ in range(members):
        consumer = sync.ShareConsumer(broker.bootstrap, group=GROUP, topics=["orders"])
        stack.enter_context(consumer).next_batch(0.01)
    deadline = time.monotonic() + 20
    while len(joined(broker)) < members:
        assert time.monotonic() < deadline


def joined(broker: Broker) -> list[str]:
    groups = broker.state.share_groups
    return broker.call(lambda: list(groups.find(GROUP).members) if groups.has(GROUP) else [])


@pytest.mark.lengthy
@pytest.mark.kshare_broker(settings={SETTING: "2"})
def test_full_group(kshare_broker: Broker, check: RunCheck) -> None:
    kshare_broker.create_topic("orders")
    with ExitStack() as stack:
        join(stack, kshare_broker, 2)
        (found,) = check(group_size, GROUP)
    assert (found.level, found.check) == (CheckLevel.WARNING, f"group {GROUP}")
    assert found.text.startswith(f"it has 2 members, as many as brokers allow ({SETTING}): more are refused")
    assert found.todo[-1] == f"{SETTING}=4"


@pytest.mark.lengthy
@pytest.mark.kshare_broker(settings={SETTING: "10"})
def test_nearly_full_group(kshare_broker: Broker, check: RunCheck) -> None:
    kshare_broker.create_topic("orders")
    with ExitStack() as stack:
        join(stack, kshare_broker, 9)
        (found,) = check(group_size, GROUP)
    assert found.level is CheckLevel.WARNING
    assert "it has 9 of at most 10 members" in found.text


@pytest.mark.lengthy
@pytest.mark.kshare_broker(settings={SETTING: "3"})
def test_group_with_room(kshare_broker: Broker, check: RunCheck) -> None:
    kshare_broker.create_topic("orders")
    with ExitStack() as stack:
        join(stack, kshare_broker, 2)
        assert check(group_size, GROUP) == []
