"""Finds out the group's delivery count limit: how often its records are delivered before the broker archives them.

It is asked for when records were delivered before, or are given back unseen, and again later, since it can change.
"""

from __future__ import annotations

from kshare.protocol.messages import DescribeConfigsRequest, DescribeConfigsResponse
from kshare.protocol.messages.describe_configs_request import DescribeConfigsResource

ASK_EVERY_S = 300.0
_GROUP = 32
_OF_GROUP = "share.delivery.count.limit"


def limit_request(group: str) -> DescribeConfigsRequest:
    """Any broker can respond to it. Before Kafka 4.3, groups have no limit of their own."""
    return DescribeConfigsRequest([DescribeConfigsResource(_GROUP, group, [_OF_GROUP])])


def limit_in(response: DescribeConfigsResponse) -> int | None:
    """None if the broker doesn't say, or we may not read it."""
    for result in response.results:
        for config in result.configs:
            if config.name == _OF_GROUP and (config.value or "").isdecimal():
                return int(config.value or "")
    return None
