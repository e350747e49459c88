"""Requests of admin clients about transactions and producers."""

from __future__ import annotations

import time
from typing import Any

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    ListTransactionsRequest,
)
from kshare.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic
from kshare.protocol.messages.describe_producers_request import TopicRequest
from kshare.protocol.record_builder import BatchBuilder
from tests.integration.conversation.talk import Talk

BY_CLIENTS, WITHOUT_BUMPS = 3, 4
"""Versions of AddPartitionsToTxn and EndTxn."""


def described(talk: Talk, *ids: str) -> None:
    response: Any = talk.quietly(DescribeTransactionsRequest(list(ids)))
    for state in response.transaction_states:
        talk.note(
            "transaction",
            [
                state.error_code,
                state.transactional_id,
                state.transaction_state,
                state.transaction_timeout_ms,
                state.transaction_start_time_ms > 0,
                state.producer_epoch,
                [[topic.topic, *sorted(topic.partitions)] for topic in state.topics],
            ],
        )


def listed(talk: Talk, *ids: str, **filters: Any) -> None:
    response = talk.quietly(ListTransactionsRequest(**filters))
    rows = sorted(
        [state.transactional_id, state.transaction_state]
        for state in response.transaction_states
        if state.transactional_id in ids
    )
    talk.note(
        f"listed {sorted(filters)}", [response.error_code, *sorted(response.unknown_state_filters), *rows]
    )


def producers(talk: Talk, topic: str, *indexes: int) -> None:
    response: Any = talk.quietly(DescribeProducersRequest([TopicRequest(topic, list(indexes))]))
    for row in sorted(response.topics[0].partitions, key=lambda row: row.partition_index):
        talk.note("partition", [row.partition_index, row.error_code, row.error_message])
        for producer in row.active_producers:
            numbers = [producer.producer_epoch, producer.last_sequence, producer.coordinator_epoch]
            talk.note("producer", [*numbers, producer.current_txn_start_offset, producer.last_timestamp > 0])


def a_transaction_is_watched(talk: Talk) -> None:
    topic, name, missing = talk.topic("orders", 2), talk.name("transaction"), talk.name("missing")
    producer = talk.transactional_producer(name)
    talk.wait_for(
        lambda: DescribeProducersRequest([TopicRequest(topic, [0, 1])]),
        lambda response: not any(row.error_code for row in response.topics[0].partitions),
    )
    described(talk, name, missing)
    listed(talk, name)
    producers(talk, topic, 0, 7)
    producers(talk, missing, 0)
    for is_commit in (True, False):
        rows = [AddPartitionsToTxnTopic(topic, [0, 1])]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=rows,
        )
        talk.wait_for(
            lambda asked=request: asked,  # type: ignore[misc]
            lambda response: (
                response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
                != ErrorCode.CONCURRENT_TRANSACTIONS
            ),
            BY_CLIENTS,
        )
        builder = BatchBuilder(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0 if is_commit else 1,
            is_transactional=True,
        )
        builder.append(b"value", timestamp=time.time_ns() // 1_000_000)
        talk.produce_batch(topic, builder, transactional_id=name)
        described(talk, name)
        producers(talk, topic, 0)
        listed(talk, name, state_filters=["Ongoing"])
        listed(talk, name, state_filters=["Empty", "Wrong"])
        listed(talk, name, producer_id_filters=[producer.producer_id])
        listed(talk, name, producer_id_filters=[producer.producer_id + 1000])
        listed(talk, name, duration_filter=0)
        listed(talk, name, duration_filter=50_000)
        listed(talk, name, transactional_id_pattern=f"trans.*{talk.mark}")
        listed(talk, name, transactional_id_pattern="trans")
        listed(talk, name, transactional_id_pattern="[")
        ended = EndTxnRequest(name, producer.producer_id, producer.producer_epoch, is_commit)
        talk.note("ended", talk.quietly(ended, version=WITHOUT_BUMPS).error_code)
        talk.wait_for(
            lambda: DescribeTransactionsRequest([name]),
            lambda response: response.transaction_states[0].transaction_state.startswith("Complete"),
        )
        described(talk, name)
        producers(talk, topic, 0)
        listed(talk, name)


SCRIPTS = [a_transaction_is_watched]
