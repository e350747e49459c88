"""How many bytes the logs of partitions have, as their leaders report them: one request for each leader."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kshare.admin.results import TopicPartition
from kshare.admin.routing import Router, response_error
from kshare.net.permissions import Right
from kshare.protocol.messages import DescribeLogDirsRequest
from kshare.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic


async def log_sizes(router: Router, where: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Partitions without a leader are left out, and those in a directory whose disk failed."""
    wanted = set(where)
    if not wanted:
        return {}
    led: dict[int, dict[str, DescribableLogDirTopic]] = defaultdict(dict)
    for topic in (await router.metadata({name for name, _ in wanted})).topics:
        name = topic.name or ""
        for row in topic.partitions:
            if row.leader_id >= 0 and (name, row.partition_index) in wanted:
                asked = led[row.leader_id].setdefault(name, DescribableLogDirTopic(name))
                asked.partitions.append(row.partition_index)
    found: dict[TopicPartition, int] = {}
    for leader, topics in led.items():
        response = await router.ask_node(
            leader,
            DescribeLogDirsRequest(list(topics.values())),
            lambda response: [response_error(response, "sizes of logs", Right("Describe", "cluster"))],
        )
        for directory in response.results:
            for held in directory.topics if not directory.error_code else ():
                for size in held.partitions:
                    if not size.is_future_key:  # a copy that is being made on another disk
                        found[held.name, size.partition_index] = size.partition_size
    return found
