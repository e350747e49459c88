"""A consumer group: which epochs and assignments heartbeats return, and who may commit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kshare.broker.cluster import TopicIdPartition
from kshare.broker.consumer_groups.consumer_group import (
    JOIN_EPOCH,
    LEAVE_FOR_NOW,
    ConsumerGroup,
    ConsumerHeartbeat,
    GroupBehavior,
)
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode

ORDERS, PARCELS = b"o" * 16, b"p" * 16
TOPICS = {"orders": (ORDERS, 4), "parcels": (PARCELS, 2)}


class Stage:
    def __init__(self, interval: int = 0, **behavior: Any) -> None:
        self.group = ConsumerGroup("group", GroupBehavior(**behavior))
        self.existing = dict(TOPICS)
        self.now, self.interval = 1000, interval

    def join(self, name: str, *topics: str, **fields: Any) -> tuple[int, list[int] | None]:
        usual: dict[str, Any] = {
            "topics": frozenset(topics or ("orders",)),
            "rebalance_timeout_ms": 500,
            "owned": frozenset(),
        }
        return self.beat(name, JOIN_EPOCH, **usual | fields)

    def beat(self, name: str, epoch: int, **fields: Any) -> tuple[int, list[int] | None]:
        """The epoch and the assigned partitions of "orders" in the response."""
        result = self.group.heartbeat(
            ConsumerHeartbeat(name, epoch, **fields), self.existing, self.now, self.interval
        )
        found = result.assigned
        return result.epoch, None if found is None else sorted(index for _, index in found)


def orders(*indexes: int) -> frozenset[TopicIdPartition]:
    return frozenset((ORDERS, index) for index in indexes)


def code_of(caught: pytest.ExceptionInfo[RequestError]) -> ErrorCode:
    return caught.value.code


def test_partition_is_given_only_when_its_owner_has_let_it_go() -> None:
    stage = Stage()
    assert stage.join("one") == (2, [0, 1, 2, 3])
    assert stage.join("two") == (3, [])
    assert stage.group.state == "Reconciling"
    assert stage.beat("one", 2) == (2, [0, 1])
    assert stage.beat("two", 3) == (3, None)
    assert stage.beat("one", 2, owned=orders(0, 1, 2)) == (2, None)
    assert stage.beat("one", 2, owned=orders(0, 1)) == (3, None)
    assert stage.beat("two", 3) == (3, [2, 3])
    assert stage.group.state == "Stable"


def test_lost_responses_are_repeated() -> None:
    stage = Stage()
    stage.join("one")
    stage.join("two")
    stage.beat("one", 2)
    stage.beat("one", 2, owned=orders(0, 1))
    with pytest.raises(RequestError) as caught:
        stage.beat("one", 2)
    assert code_of(caught) is ErrorCode.FENCED_MEMBER_EPOCH
    with pytest.raises(RequestError):
        stage.beat("one", 2, owned=orders(0, 1, 2))
    assert stage.beat("one", 2, owned=orders(0)) == (3, None)
    full = {"owned": orders(0), "topics": frozenset({"orders"}), "rebalance_timeout_ms": 500}
    assert stage.beat("one", 2, **full) == (3, [0, 1])


def test_member_that_revokes_has_a_deadline() -> None:
    stage = Stage()
    stage.join("one")
    stage.join("two")
    one = stage.group.members["one"]
    assert one.revocation_ends_at is None
    stage.beat("one", 2)
    assert one.revocation_ends_at == 1500
    stage.now += 100
    stage.beat("one", 2)
    assert one.revocation_ends_at == 1500
    stage.beat("one", 2, owned=orders(0, 1))
    assert one.revocation_ends_at is None


def test_static_member_returns_to_its_partitions() -> None:
    stage = Stage()
    stage.join("one", instance="first")
    with pytest.raises(RequestError) as caught:
        stage.join("again", instance="first")
    assert code_of(caught) is ErrorCode.UNRELEASED_INSTANCE_ID
    stage.group.leave("one", "first", for_now=True)
    assert stage.group.members["one"].epoch == LEAVE_FOR_NOW
    assert stage.join("again", instance="first") == (2, [0, 1, 2, 3])
    assert list(stage.group.members) == ["again"]
    with pytest.raises(RequestError) as caught:
        stage.beat("one", 2, instance="first")
    assert code_of(caught) is ErrorCode.FENCED_INSTANCE_ID


def test_assignments_wait_for_the_interval() -> None:
    stage = Stage(interval=1000)
    assert stage.join("one") == (2, [0, 1, 2, 3])
    assert stage.join("two") == (2, [])
    assert stage.group.state == "Assigning"
    stage.now += 1000
    assert stage.beat("one", 2) == (2, [0, 1])
    stage.group.leave("one", None, for_now=False)
    stage.group.leave("two", None, for_now=False)
    assert stage.group.epoch == stage.group.assignment_epoch
    assert stage.join("three")[1] == [0, 1, 2, 3]


def test_next_member_of_an_empty_group_waited_for_the_interval_before_4_4() -> None:
    stage = Stage(interval=1000, assigns_at_once_after_empty=False)
    stage.join("one")
    stage.group.leave("one", None, for_now=False)
    assert stage.join("two")[1] == []


def test_first_epoch_before_4_2() -> None:
    stage = Stage(first_epoch=0, accepts_joining_again=False)
    assert stage.join("one") == (1, [0, 1, 2, 3])
    assert stage.join("one") == (1, [0, 1, 2, 3])
    assert stage.join("two") == (2, [])
    stage.group.leave("one", None, for_now=False)
    assert stage.beat("two", 2) == (3, [0, 1, 2, 3])
    with pytest.raises(RequestError):
        stage.join("two")


def test_preferred_assignor() -> None:
    stage = Stage()
    for name in ("one", "two", "three"):
        stage.join(name, assignor="range")
    assert stage.group.assignor == "range"
    epoch = stage.group.epoch
    stage.beat("three", stage.group.members["three"].epoch, assignor="uniform")
    assert (stage.group.assignor, stage.group.epoch) == ("range", epoch)
    stage.beat("two", stage.group.members["two"].epoch, assignor="uniform")
    assert (stage.group.assignor, stage.group.epoch) == ("uniform", epoch + 1)


def test_topics_are_found_by_regular_expression_after_the_response() -> None:
    stage = Stage()
    assert stage.join("one", topics=None, regex="orders|letters") == (1, [])
    assert stage.beat("one", 1) == (2, [0, 1, 2, 3])
    stage.existing["letters"] = (b"l" * 16, 1)
    assert stage.beat("one", 2) == (2, None)
    stage.now += 10_000
    stage.beat("one", 2)
    assert stage.beat("one", 2) == (3, [0, 0, 1, 2, 3])
    assert stage.join("hidden", topics=None, regex=".*", may_describe=lambda name: False)[1] == []


def test_topic_that_is_created_again_is_another_one() -> None:
    stage = Stage()
    stage.join("one")
    stage.existing["orders"] = (PARCELS, 1)
    assert stage.beat("one", 2) == (2, [])
    assert stage.beat("one", 2, owned=frozenset()) == (3, [0])
    del stage.existing["orders"]
    assert stage.beat("one", 3) == (3, [])


@pytest.mark.parametrize("keeps", [True, False])
def test_commits_with_an_older_epoch(keeps: bool) -> None:
    stage = Stage(keeps_partition_epochs=keeps)
    stage.join("one")
    stage.join("two")
    stage.beat("one", 2)
    stage.group.check_commit("one", 2, orders(3))
    stage.beat("one", 2, owned=orders(0, 1))
    stage.group.check_commit("one", 3, orders(3))
    if keeps:
        stage.group.check_commit("one", 2, orders(0, 1))
    for epoch, partitions in ((2, orders(0, 3)), (4, orders(0)), (1, orders(0))):
        with pytest.raises(RequestError) as caught:
            stage.group.check_commit("one", epoch, partitions)
        assert code_of(caught) is ErrorCode.STALE_MEMBER_EPOCH
    with pytest.raises(RequestError) as caught:
        stage.group.check_commit("nobody", 3, orders(0))
    assert code_of(caught) is ErrorCode.UNKNOWN_MEMBER_ID


class Client:
    """A well-behaved member: it revokes what it is told to, and sends everything again if a response was lost."""

    def __init__(self, name: str, instance: str | None, topics: frozenset[str]) -> None:
        self.name, self.instance, self.topics, self.epoch = name, instance, topics, JOIN_EPOCH
        self.must_send_everything = True
        self.owned: frozenset[TopicIdPartition] = frozenset()


class Reconciliation(RuleBasedStateMachine):
    """Members come, go and change their minds; responses are lost."""

    names = strategies.sampled_from(["one", "two", "three", "four"])

    @initialize(release=strategies.sampled_from([0, 1]), interval=strategies.sampled_from([0, 1000]))
    def begin(self, release: int, interval: int) -> None:
        is_new = bool(release)
        self.stage = Stage(
            interval if is_new else 0,
            first_epoch=release,
            assigns_at_once_after_empty=is_new,
            accepts_joining_again=True,
        )
        self.clients: dict[str, Client] = {}
        self.epochs = (0, 0)

    @rule(
        name=names,
        topics=strategies.sampled_from([("orders",), ("parcels",), ("orders", "parcels")]),
        assignor=strategies.sampled_from([None, "uniform", "range"]),
        is_static=strategies.booleans(),
    )
    def join(self, name: str, topics: tuple[str, ...], assignor: str | None, is_static: bool) -> None:
        if name not in self.clients:
            client = Client(name, name if is_static else None, frozenset(topics))
            self.clients[name] = client
            self._send(client, assignor=assignor)

    @rule(name=names, is_lost=strategies.booleans(), is_silent=strategies.booleans())
    def beat(self, name: str, is_lost: bool, is_silent: bool) -> None:
        if name in self.clients:
            self._send(self.clients[name], is_lost=is_lost, is_silent=is_silent)

    @rule(name=names, topics=strategies.sampled_from([("orders",), ("parcels",), ()]))
    def subscribe(self, name: str, topics: tuple[str, ...]) -> None:
        if name in self.clients:
            self.clients[name].topics = frozenset(topics)
            self._send(self.clients[name], topics=frozenset(topics))

    @rule(name=names)
    def leave(self, name: str) -> None:
        if name in self.clients:
            client = self.clients.pop(name)
            self.stage.group.leave(client.name, client.instance, for_now=False)

    @rule(name=names)
    def restart(self, name: str) -> None:
        """A static member leaves for now, and comes back with another member id."""
        client = self.clients.get(name)
        if client is not None and client.instance is not None:
            self.stage.group.leave(client.name, client.instance, for_now=True)
            client.name, client.epoch, client.owned = f"{client.name}'", JOIN_EPOCH, frozenset()
            self._send(client)

    @rule(count=strategies.integers(0, 6), topic=strategies.sampled_from(sorted(TOPICS)))
    def change_topic(self, count: int, topic: str) -> None:
        topic_id, before = self.stage.existing.pop(topic, (topic[:1].encode() * 16, 0))
        if count:
            is_other = count < before
            new_id = bytes([topic_id[0] ^ 1]) * 16 if is_other else topic_id
            self.stage.existing[topic] = (new_id, count)

    @rule(milliseconds=strategies.sampled_from([1, 400, 1000]))
    def wait(self, milliseconds: int) -> None:
        self.stage.now += milliseconds

    @precondition(lambda self: self.clients)
    @rule()
    def everybody_settles(self) -> None:
        for _ in range(8):
            self.stage.now += 1000
            for client in list(self.clients.values()):
                self._send(client)
        group = self.stage.group
        assert group.state == "Stable"
        for client in self.clients.values():
            assert client.owned == group.members[client.name].assigned.keys()
            assert client.owned == group.target_of(group.members[client.name])
        expected = {
            (topic_id, index)
            for name, (topic_id, count) in self.stage.existing.items()
            if name in group.topics
            for index in range(count)
        }
        assert {each for client in self.clients.values() for each in client.owned} == expected

    def _send(self, client: Client, *, is_lost: bool = False, is_silent: bool = False, **fields: Any) -> None:
        if client.must_send_everything or client.epoch == JOIN_EPOCH:
            fields = {"rebalance_timeout_ms": 500, "topics": client.topics} | fields
            is_silent = False
        request = ConsumerHeartbeat(
            client.name,
            client.epoch,
            instance=client.instance,
            owned=None if is_silent else client.owned,
            **fields,
        )
        try:
            result = self.stage.group.heartbeat(
                request, self.stage.existing, self.stage.now, self.stage.interval
            )
        except RequestError as refusal:
            if client.instance is not None and refusal.code is ErrorCode.UNRELEASED_INSTANCE_ID:
                # It was fenced, and its instance id is still its own: it has to restart.
                self.stage.group.leave(client.name, client.instance, for_now=True)
            else:
                assert refusal.code is ErrorCode.FENCED_MEMBER_EPOCH
            client.epoch, client.owned = JOIN_EPOCH, frozenset()
            return
        client.must_send_everything = is_lost
        if not is_lost:
            client.epoch = result.epoch
            if result.assigned is not None:
                client.owned = result.assigned

    @invariant()
    def nobody_shares_a_partition(self) -> None:
        if hasattr(self, "stage"):
            members = self.stage.group.members.values()
            held = [partition for member in members for partition in member.held]
            assert len(held) == len(set(held))

    @invariant()
    def epochs_never_go_back(self) -> None:
        if hasattr(self, "stage"):
            group = self.stage.group
            epochs = (group.epoch, group.assignment_epoch)
            assert all(now >= before for now, before in zip(epochs, self.epochs, strict=True))
            assert group.assignment_epoch <= group.epoch
            assert all(member.epoch <= group.epoch for member in group.members.values())
            self.epochs = epochs


TestReconciliation = Reconciliation.TestCase
TestReconciliation.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
