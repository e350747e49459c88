"""The five state requests to a share coordinator."""

from __future__ import annotations

from collections.abc import Sequence

from kshare.protocol.json_form import uuid_text
from kshare.protocol.messages import (
    DeleteShareGroupStateRequest,
    FindCoordinatorRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    WriteShareGroupStateRequest,
)
from kshare.protocol.messages import delete_share_group_state_request as delete_rows
from kshare.protocol.messages import initialize_share_group_state_request as initialize_rows
from kshare.protocol.messages import read_share_group_state_request as read_rows
from kshare.protocol.messages import read_share_group_state_summary_request as summary_rows
from kshare.protocol.messages import write_share_group_state_request as write_rows
from tests.integration.conversation.talk import Talk

NOWHERE = b"nowhere........."
Row = tuple[int, int, int, int]
"""First offset, last offset, state, delivery count."""


class Coordinator:
    """Sends requests for share-partitions of one group and one topic."""

    def __init__(self, talk: Talk, topic_id: bytes, group: str) -> None:
        self.talk = talk
        self.topic_id = topic_id
        self.group = group

    def find(self, partition: int = 0) -> None:
        key = f"{self.group}:{uuid_text(self.topic_id)}:{partition}"
        self.talk.wait_for(
            lambda: FindCoordinatorRequest(key_type=2, coordinator_keys=[key]),
            lambda response: response.coordinators[0].error_code == 0,
        )
        # The coordinator may still be loading, or may not know the topic yet.
        self.talk.wait_for(
            lambda: self._summary(partition),
            lambda response: response.results[0].partitions[0].error_code not in (3, 14, 15, 16),
        )

    def _summary(self, partition: int = 0, leader_epoch: int = 0) -> ReadShareGroupStateSummaryRequest:
        rows = [summary_rows.PartitionData(partition, leader_epoch)]
        return ReadShareGroupStateSummaryRequest(
            self.group, [summary_rows.ReadStateSummaryData(self.topic_id, rows)]
        )

    def initialize(self, state_epoch: int, start: int, partition: int = 0) -> None:
        rows = [initialize_rows.PartitionData(partition, state_epoch, start)]
        self.talk.ask(
            InitializeShareGroupStateRequest(
                self.group, [initialize_rows.InitializeStateData(self.topic_id, rows)]
            )
        )

    def read(self, leader_epoch: int = 0, partition: int = 0) -> None:
        rows = [read_rows.PartitionData(partition, leader_epoch)]
        self.talk.ask(ReadShareGroupStateRequest(self.group, [read_rows.ReadStateData(self.topic_id, rows)]))

    def summary(self, leader_epoch: int = 0, partition: int = 0) -> None:
        self.talk.ask(self._summary(partition, leader_epoch))

    def write(
        self,
        state_epoch: int,
        leader_epoch: int,
        start: int,
        batches: Sequence[Row] = (),
        complete: int = -1,
        partition: int = 0,
    ) -> None:
        rows = [
            write_rows.PartitionData(
                partition,
                state_epoch,
                leader_epoch,
                start,
                complete,
                [write_rows.StateBatch(*row) for row in batches],
            )
        ]
        self.talk.ask(
            WriteShareGroupStateRequest(self.group, [write_rows.WriteStateData(self.topic_id, rows)])
        )

    def delete(self, partition: int = 0) -> None:
        rows = [delete_rows.PartitionData(partition)]
        self.talk.ask(
            DeleteShareGroupStateRequest(self.group, [delete_rows.DeleteStateData(self.topic_id, rows)])
        )


def _coordinator(talk: Talk, label: str = "state") -> Coordinator:
    topic = talk.topic(f"{label}-topic", 2)
    coordinator = Coordinator(talk, talk.topic_ids[topic], talk.group(f"{label}-group"))
    coordinator.find()
    return coordinator


def nothing_is_known_yet(talk: Talk) -> None:
    coordinator = _coordinator(talk)
    coordinator.read()
    coordinator.summary()
    coordinator.write(0, 0, 0)
    coordinator.write(0, 0, 5, [(5, 9, 2, 1)])
    coordinator.delete()
    coordinator.read()


def a_state_lives_and_dies(talk: Talk) -> None:
    coordinator = _coordinator(talk)
    coordinator.initialize(1, 0)
    coordinator.summary()
    coordinator.read(0)
    coordinator.write(1, 0, 0, [(0, 9, 0, 1)])
    coordinator.read(0)
    coordinator.write(1, 0, 0, [(0, 4, 2, 1)], 5)
    coordinator.read(0)
    coordinator.summary(0)
    coordinator.write(1, 0, 5, [(5, 9, 0, 2)], 0)
    coordinator.read(0)
    coordinator.write(1, 0, -1, [(7, 7, 4, 3), (8, 9, 2, 3)], 3)
    coordinator.read(0)
    coordinator.write(1, 0, 10, [])
    coordinator.read(0)
    coordinator.summary(0)
    coordinator.delete()
    coordinator.read(0)
    coordinator.summary(0)
    coordinator.initialize(1, 3)
    coordinator.read(0)


def epochs_fence(talk: Talk) -> None:
    coordinator = _coordinator(talk)
    coordinator.initialize(5, -1)
    coordinator.initialize(4, 3)
    coordinator.summary()
    coordinator.initialize(5, 7)
    coordinator.read(0)
    coordinator.read(3)
    coordinator.read(2)
    coordinator.summary(2)
    coordinator.write(5, 2, 7)
    coordinator.write(4, 3, 7)
    coordinator.write(6, 3, 8)
    coordinator.write(5, 4, 9)
    coordinator.read(3)
    coordinator.read(4)
    coordinator.initialize(6, 20)
    coordinator.read(4)
    coordinator.write(5, 4, 21)
    coordinator.write(6, 4, 21, [(21, 22, 0, 1)])
    coordinator.read(-1)
    coordinator.summary(-1)
    coordinator.read(3)
    coordinator.read(5)
    coordinator.summary()
    coordinator.write(6, 7, 22, complete=1)
    coordinator.summary()
    coordinator.read(6)
    coordinator.initialize(7, 30)
    coordinator.summary()
    coordinator.read(3)
    coordinator.write(7, 3, 31)
    coordinator.delete()
    coordinator.initialize(1, 0)
    coordinator.read(0)


def batches_are_combined(talk: Talk) -> None:
    coordinator = _coordinator(talk)
    coordinator.initialize(0, 0)
    coordinator.write(0, 0, 0, [(0, 99, 0, 1)])
    coordinator.write(0, 0, 0, [(10, 19, 2, 1), (30, 39, 4, 1)])
    coordinator.read()
    coordinator.write(0, 0, 0, [(20, 29, 2, 1)])
    coordinator.read()
    coordinator.write(0, 0, 0, [(15, 34, 0, 2)])
    coordinator.read()
    coordinator.write(0, 0, 12, [(100, 109, 0, 1)])
    coordinator.read()
    coordinator.write(0, 0, 12, [(5, 13, 2, 1)])
    coordinator.read()
    coordinator.write(0, 0, -1, [(13, 13, 0, 3), (14, 14, 0, 3), (15, 15, 0, 3)])
    coordinator.read()
    coordinator.write(0, 0, 60, [])
    coordinator.read()
    coordinator.write(0, 0, 30, [])
    coordinator.read()


def strange_requests(talk: Talk) -> None:
    coordinator = _coordinator(talk)
    coordinator.initialize(0, 0, partition=1)
    coordinator.read(partition=1)
    for partition in (2, -1):
        coordinator.initialize(0, 0, partition)
        coordinator.read(0, partition)
        coordinator.summary(0, partition)
        coordinator.write(0, 0, 0, partition=partition)
        coordinator.delete(partition)
    coordinator.initialize(-1, 0)
    coordinator.initialize(0, -5)
    coordinator.read(-1)
    coordinator.write(-1, 0, 0)
    coordinator.write(0, -1, 0)
    coordinator.write(0, 0, 0, [(0, 5, 9, 1)])
    coordinator.write(0, 0, 0, [(0, 5, 0, -1)])
    coordinator.read(0)
    nowhere = Coordinator(talk, NOWHERE, coordinator.group)
    nowhere.initialize(0, 0)
    nowhere.read()
    nowhere.summary()
    nowhere.write(0, 0, 0)
    nowhere.delete()
    zero = Coordinator(talk, bytes(16), coordinator.group)
    zero.initialize(0, 0)
    zero.read()
    zero.delete()
    nobody = Coordinator(talk, coordinator.topic_id, "")
    nobody.initialize(0, 0)
    nobody.read()
    nobody.summary()
    nobody.write(0, 0, 0)
    nobody.delete()
    talk.ask(InitializeShareGroupStateRequest(coordinator.group, []))
    talk.ask(ReadShareGroupStateRequest(coordinator.group, []))
    talk.ask(ReadShareGroupStateSummaryRequest(coordinator.group, []))
    talk.ask(WriteShareGroupStateRequest(coordinator.group, []))
    talk.ask(DeleteShareGroupStateRequest(coordinator.group, []))


SCRIPTS = [
    nothing_is_known_yet,
    a_state_lives_and_dies,
    epochs_fence,
    batches_are_combined,
    strange_requests,
]
