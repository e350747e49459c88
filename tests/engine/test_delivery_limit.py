"""The group's delivery count limit, as a broker says it."""

from __future__ import annotations

import pytest

from kshare.engine.delivery_limit import limit_in, limit_request
from kshare.protocol.messages import DescribeConfigsResponse
from kshare.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)

NAME = "share.delivery.count.limit"


@pytest.mark.parametrize(("value", "limit"), [("7", 7), (None, None), ("", None), ("many", None)])
def test_limit_of_a_response(value: str | None, limit: int | None) -> None:
    configs = [DescribeConfigsResourceResult("share.other", "3"), DescribeConfigsResourceResult(NAME, value)]
    assert limit_in(DescribeConfigsResponse(results=[DescribeConfigsResult(configs=configs)])) == limit


def test_what_may_not_be_read_is_unknown() -> None:
    assert limit_in(DescribeConfigsResponse(results=[DescribeConfigsResult(29)])) is None
    assert limit_in(DescribeConfigsResponse()) is None


def test_request_names_the_group() -> None:
    (resource,) = limit_request("orders").resources
    assert (resource.resource_name, resource.configuration_keys) == ("orders", [NAME])
