"""Every broker setting of each release is known to the embedded broker."""

from __future__ import annotations

from typing import Any

import pytest

from kshare.broker.server_properties import sort_properties
from kshare.broker.settings import TABLES, Resource
from kshare.protocol.messages import DescribeConfigsRequest
from kshare.protocol.messages.describe_configs_request import DescribeConfigsResource
from tests.integration.conversation.talk import Talk
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka]


def test_every_setting_of_a_real_broker_is_accepted(kafka: Cluster) -> None:
    with Talk(kafka.nodes[0].address()) as talk:
        request = DescribeConfigsRequest([DescribeConfigsResource(Resource.BROKER, "1", None)])
        response: Any = talk.quietly(request)
    # A number that all accept, since the broker doesn't tell secrets and unset values.
    given = {setting.name: "1" for setting in response.results[0].configs}
    assert len(given) > 250
    sort_properties(given, TABLES[Resource.BROKER])
