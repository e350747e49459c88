"""A share group: which epochs and assignments heartbeats return."""

from __future__ import annotations

import pytest

from kshare.broker.request_error import RequestError
from kshare.broker.share_groups.share_group import Heartbeat, ShareGroup
from kshare.protocol.error_codes import ErrorCode

ORDERS = b"o" * 16
KNOWN = {"orders": (ORDERS, 2)}


class Stage:
    def __init__(self, *, assigns_at_once_after_empty: bool = True) -> None:
        self.group = ShareGroup("group", assigns_at_once_after_empty=assigns_at_once_after_empty)
        self.now = 1000
        self.known = dict(KNOWN)

    def heartbeat_request(
        self, member: str, epoch: int, topics: list[str] | None = None
    ) -> tuple[int, list[int] | None]:
        heartbeat_request = Heartbeat(member, epoch, topics, None, "client", "host")
        if epoch:
            self.group.check(heartbeat_request)
        response = self.group.heartbeat(heartbeat_request, self.known, self.now, 1000)
        for partition in self.group.missing():
            self.group.set_ready(partition)
        found = None if response.assigned is None else sorted(index for _, index in response.assigned)
        return response.epoch, found


def test_partitions_are_assigned_once_they_are_initialized_and_the_interval_has_passed() -> None:
    stage = Stage()
    assert stage.heartbeat_request("one", 0, ["orders"]) == (2, [])
    assert stage.heartbeat_request("one", 2) == (2, None)
    stage.now += 1000
    assert stage.heartbeat_request("one", 2) == (3, [0, 1])
    assert stage.heartbeat_request("one", 3) == (3, None)
    assert stage.heartbeat_request("one", 3, ["orders"]) == (3, [0, 1])


def test_epochs_that_a_member_never_had_are_fenced() -> None:
    stage = Stage()
    stage.heartbeat_request("one", 0, ["orders"])
    stage.now += 1000
    stage.heartbeat_request("one", 2)
    stage.heartbeat_request("one", 2)
    assert stage.heartbeat_request("one", 2) == (3, None)  # the previous response may have been lost
    for wrong in (1, 4):
        with pytest.raises(RequestError) as caught:
            stage.heartbeat_request("one", wrong)
        assert caught.value.code == ErrorCode.FENCED_MEMBER_EPOCH
    with pytest.raises(RequestError) as caught:
        stage.heartbeat_request("stranger", 3)
    assert caught.value.code == ErrorCode.UNKNOWN_MEMBER_ID


def test_assignments_change_when_topics_grow_or_are_deleted() -> None:
    stage = Stage()
    stage.heartbeat_request("one", 0, ["orders"])
    stage.now += 1000
    stage.heartbeat_request("one", 2)
    stage.known["orders"] = (ORDERS, 3)
    stage.heartbeat_request("one", 3)
    stage.now += 1000
    epoch, assigned = stage.heartbeat_request("one", 3)
    while assigned is None:
        stage.now += 1000
        epoch, assigned = stage.heartbeat_request("one", epoch)
    assert assigned == [0, 1, 2]
    del stage.known["orders"]
    assert stage.heartbeat_request("one", epoch)[1] == []


def test_partitions_of_a_leaving_member_are_reassigned() -> None:
    stage = Stage()
    stage.heartbeat_request("one", 0, ["orders"])
    stage.now += 1000
    stage.heartbeat_request("two", 0, ["orders"])
    stage.now += 1000
    one, first = stage.heartbeat_request("one", 2)
    _, second = stage.heartbeat_request("two", 0, ["orders"])
    assert first is not None
    assert second is not None
    assert sorted(first + second) == [0, 1]
    stage.group.remove(stage.group.members["two"])
    stage.now += 1000
    assert stage.heartbeat_request("one", one)[1] == [0, 1]


def test_member_that_follows_the_last_one_is_assigned_at_once_since_4_4() -> None:
    stage = Stage()
    stage.heartbeat_request("one", 0, ["orders"])
    stage.now += 1000
    stage.heartbeat_request("one", 2)
    stage.group.remove(stage.group.members["one"])
    assert (stage.group.epoch, stage.group.assignment_epoch) == (4, 4)
    assert stage.heartbeat_request("two", 0, ["orders"]) == (5, [0, 1])
    assert stage.heartbeat_request("three", 0, ["orders"]) == (5, [])


def test_member_that_follows_the_last_one_waits_for_the_interval_before_4_4() -> None:
    stage = Stage(assigns_at_once_after_empty=False)
    stage.heartbeat_request("one", 0, ["orders"])
    stage.now += 1000
    stage.heartbeat_request("one", 2)
    stage.group.remove(stage.group.members["one"])
    assert (stage.group.epoch, stage.group.assignment_epoch) == (4, 3)
    assert stage.heartbeat_request("two", 0, ["orders"]) == (3, [])
    stage.now += 1000
    assert stage.heartbeat_request("two", 3) == (5, [0, 1])
