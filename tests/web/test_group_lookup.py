"""Groups that the last reading doesn't have: whether they exist."""

from __future__ import annotations

from html import unescape
from typing import Any

import pytest

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ListGroupsRequest, ShareGroupDescribeRequest
from kshare.testing import Broker
from tests.helpers.consoles import RunningConsole, StartConsole, eventually
from tests.helpers.packers import GROUP, showing_packers, with_packers

PAGES = [f"{path}?name={GROUP}" for path in ("/group", "/group/settings", "/group/offsets")]


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    return with_packers(kshare_broker)


@pytest.fixture
def console(start: StartConsole) -> RunningConsole:
    return showing_packers(start)


def refused(console: RunningConsole, page: str) -> str:
    """The page's text, once its status is 503."""
    return unescape(eventually(lambda: console.request(page), lambda found: found[0] == 503)[2])


def lose(response: Any) -> None:
    response.groups = []


def refuse(response: Any) -> None:
    for group in response.groups:
        group.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.mark.lengthy
def test_a_group_that_a_reading_has_lost_may_exist(broker: Broker, console: RunningConsole) -> None:
    broker.faults.add(ListGroupsRequest, times=None, change=lose)
    for page in PAGES:
        assert "but it exists: the next reading will have it" in refused(console, page)
    assert console.request("/group?name=other")[0] == 404


@pytest.mark.lengthy
def test_nobody_knows_whether_a_group_exists_that_may_not_be_described(
    broker: Broker, console: RunningConsole
) -> None:
    broker.faults.add(ListGroupsRequest, times=None, change=lose)
    broker.faults.add(ShareGroupDescribeRequest, times=None, change=refuse)
    assert "its coordinator doesn't tell" in refused(console, PAGES[0])


@pytest.mark.lengthy
def test_a_group_is_not_missing_while_the_cluster_cannot_be_read(
    broker: Broker, console: RunningConsole
) -> None:
    broker.stop_node(1)
    said = "isn't in the last reading, and the cluster can't be read now"
    eventually(lambda: refused(console, "/group?name=new"), lambda text: said in text)
