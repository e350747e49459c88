"""`kshare consume` with a broker whose responses can't be decoded."""

from __future__ import annotations

import pytest
from anyio.from_thread import start_blocking_portal

from tests.cli.running import kshare
from tests.fakes.tiny_cluster import TinyCluster
from tests.helpers.spoiled_responses import cut_in_half


@pytest.mark.lengthy
def test_error_names_the_broker_and_the_response() -> None:
    cluster = TinyCluster("a")
    cluster.topics["a"].append(b"x" * 1000)
    cluster.spoil = cut_in_half
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(cluster.running()):
        done = kshare("consume", "-b", cluster.bootstrap, "-t", "a", "-g", "g")
    assert done.code == 1
    assert not done.out
    assert f"the response of {cluster.bootstrap} to ShareFetch v2 can't be decoded: responses" in done.err
