"""Converts the broker's metadata to JSON and back: topics, configs, producers, transactions. Does no file IO.

Records and committed offsets aren't included: they change too often, and have their own files. Offsets that wait for
the end of a transaction are included, and so are consumer groups, but not their members.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

from kshare.broker.authorizer import AclRule
from kshare.broker.broker import Broker
from kshare.broker.classic_groups.offsets import CommittedOffset
from kshare.broker.cluster import Partition, Topic
from kshare.broker.settings import TABLES, Resource
from kshare.broker.transactions import Transaction, TransactionState

FORMAT = 1


class UnreadableFolder(Exception):
    """This version of the broker can't read the data folder, or another broker uses it."""


def to_json(broker: Broker) -> dict[str, Any]:
    transactions = broker.transactions
    return {
        "format": FORMAT,
        "cluster_id": broker.cluster.cluster_id,
        "topics": [_topic(topic) for topic in broker.cluster.topics.values()],
        "configs": [
            {"of": resource.name, "name": name, "values": values}
            for (resource, name), values in broker.configs.chosen.items()
        ],
        "rules": [astuple(rule) for rule in broker.authorizer.rules],
        "next_producer_id": transactions.next_producer_id,
        "transactions": [_transaction(each) for each in transactions.by_id.values()],
        "consumer_groups": [[group.id, group.epoch] for group in broker.consumer_groups.all()],
        "pending_offsets": [
            [producer_id, group, *partition, offset.offset, offset.leader_epoch, offset.metadata]
            for producer_id, group, partition, offset in broker.classic_groups.offsets.pending()
        ],
    }


def from_json(broker: Broker, state: dict[str, Any]) -> None:
    """Restore a new broker. All leader epochs increase, as after any restart of a leader."""
    if state.get("format") != FORMAT:
        raise UnreadableFolder(f"its format is {state.get('format')}, but this broker supports {FORMAT}")
    broker.cluster.cluster_id = state["cluster_id"]
    for each in state["configs"]:
        resource = Resource[each["of"]]
        valid = {name: value for name, value in each["values"].items() if name in TABLES[resource]}
        broker.configs.chosen[resource, each["name"]] = valid
    for kept in state["topics"]:
        partitions = [(each["epoch"] + 1, each["replicas"], each["start"]) for each in kept["partitions"]]
        broker.cluster.restore_topic(kept["name"], bytes.fromhex(kept["id"]), partitions)
    for rule in state.get("rules", []):  # missing in folders of older versions
        broker.authorizer.rules[AclRule(*rule)] = None
    broker.transactions.next_producer_id = state["next_producer_id"]
    for group, epoch in state.get("consumer_groups", []):  # missing in folders of older versions
        broker.consumer_groups.restore(group, epoch)
    for producer_id, group, topic, index, *offset in state["pending_offsets"]:
        broker.classic_groups.offsets.commit_later(
            producer_id, group, (topic, index), CommittedOffset(*offset)
        )
    for each in state["transactions"]:
        partitions_in = {
            broker.cluster.partition(name, index)
            for name, index in each["partitions"]
            if broker.cluster.find(name)
        }
        broker.transactions.restore(
            Transaction(
                each["id"],
                each["producer_id"],
                each["epoch"],
                each["timeout_ms"],
                TransactionState(each["state"]),
                partitions_in,
                each["began"],
                last_producer_id=each.get("last_producer_id", -1),  # missing in folders of older versions
            )
        )


def _topic(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "id": topic.id.hex(),
        "partitions": [_partition(partition) for partition in topic.partitions],
    }


def _partition(partition: Partition) -> dict[str, Any]:
    return {
        "epoch": partition.leader_epoch,
        "replicas": partition.replicas,
        "start": partition.log.start_offset,
    }


def _transaction(transaction: Transaction) -> dict[str, Any]:
    return {
        "id": transaction.transactional_id,
        "producer_id": transaction.producer_id,
        "epoch": transaction.epoch,
        "timeout_ms": transaction.timeout_ms,
        "state": transaction.state,
        "partitions": [[each.topic.name, each.index] for each in transaction.partitions],
        "began": transaction.began,
        "last_producer_id": transaction.last_producer_id,
    }
