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
    it = _coordinator(talk)
    it.read()
    it.summary()
    it.write(0, 0, 0)
    it.write(0, 0, 5, [(5, 9, 2, 1)])
    it.delete()
    it.read()


def a_state_lives_and_dies(talk: Talk) -> None:
    it = _coordinator(talk)
    it.initialize(1, 0)
    it.summary()
    it.read(0)
    it.write(1, 0, 0, [(0, 9, 0, 1)])
    it.read(0)
    it.write(1, 0, 0, [(0, 4, 2, 1)], 5)
    it.read(0)
    it.summary(0)
    it.write(1, 0, 5, [(5, 9, 0, 2)], 0)
    it.read(0)
    it.write(1, 0, -1, [(7, 7, 4, 3), (8, 9, 2, 3)], 3)
    it.read(0)
    it.write(1, 0, 10, [])
    it.read(0)
    it.summary(0)
    it.delete()
    it.read(0)
    it.summary(0)
    it.initialize(1, 3)
    it.read(0)


def epochs_fence(talk: Talk) -> None:
    it = _coordinator(talk)
    it.initialize(5, -1)
    it.initialize(4, 3)
    it.summary()
    it.initialize(5, 7)
    it.read(0)
    it.read(3)
    it.read(2)
    it.summary(2)
    it.write(5, 2, 7)
    it.write(4, 3, 7)
    it.write(6, 3, 8)
    it.write(5, 4, 9)
    it.read(3)
    it.read(4)
    it.initialize(6, 20)
    it.read(4)
    it.write(5, 4, 21)
    it.write(6, 4, 21, [(21, 22, 0, 1)])
    it.read(-1)
    it.summary(-1)
    it.read(3)
    it.read(5)
    it.summary()
    it.write(6, 7, 22, complete=1)
    it.summary()
    it.read(6)
    it.initialize(7, 30)
    it.summary()
    it.read(3)
    it.write(7, 3, 31)
    it.delete()
    it.initialize(1, 0)
    it.read(0)


def batches_are_combined(talk: Talk) -> None:
    it = _coordinator(talk)
    it.initialize(0, 0)
    it.write(0, 0, 0, [(0, 99, 0, 1)])
    it.write(0, 0, 0, [(10, 19, 2, 1), (30, 39, 4, 1)])
    it.read()
    it.write(0, 0, 0, [(20, 29, 2, 1)])
    it.read()
    it.write(0, 0, 0, [(15, 34, 0, 2)])
    it.read()
    it.write(0, 0, 12, [(100, 109, 0, 1)])
    it.read()
    it.write(0, 0, 12, [(5, 13, 2, 1)])
    it.read()
    it.write(0, 0, -1, [(13, 13, 0, 3), (14, 14, 0, 3), (15, 15, 0, 3)])
    it.read()
    it.write(0, 0, 60, [])
    it.read()
    it.write(0, 0, 30, [])
    it.read()


def strange_requests(talk: Talk) -> None:
    it = _coordinator(talk)
    it.initialize(0, 0, partition=1)
    it.read(partition=1)
    for partition in (2, -1):
        it.initialize(0, 0, partition)
        it.read(0, partition)
        it.summary(0, partition)
        it.write(0, 0, 0, partition=partition)
        it.delete(partition)
    it.initialize(-1, 0)
    it.initialize(0, -5)
    it.read(-1)
    it.write(-1, 0, 0)
    it.write(0, -1, 0)
    it.write(0, 0, 0, [(0, 5, 9, 1)])
    it.write(0, 0, 0, [(0, 5, 0, -1)])
    it.read(0)
    nowhere = Coordinator(talk, NOWHERE, it.group)
    nowhere.initialize(0, 0)
    nowhere.read()
    nowhere.summary()
    nowhere.write(0, 0, 0)
    nowhere.delete()
    zero = Coordinator(talk, bytes(16), it.group)
    zero.initialize(0, 0)
    zero.read()
    zero.delete()
    nobody = Coordinator(talk, it.topic_id, "")
    nobody.initialize(0, 0)
    nobody.read()
    nobody.summary()
    nobody.write(0, 0, 0)
    nobody.delete()
    talk.ask(InitializeShareGroupStateRequest(it.group, []))
    talk.ask(ReadShareGroupStateRequest(it.group, []))
    talk.ask(ReadShareGroupStateSummaryRequest(it.group, []))
    talk.ask(WriteShareGroupStateRequest(it.group, []))
    talk.ask(DeleteShareGroupStateRequest(it.group, []))


SCRIPTS = [
    nothing_is_known_yet,
    a_state_lives_and_dies,
    epochs_fence,
    batches_are_combined,
    strange_requests,
]
