"""A console that is stopped while the cluster doesn't respond: neither pages nor jobs keep it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from kshare.protocol.messages import ShareFetchRequest
from kshare.testing import Broker
from tests.helpers.consoles import eventually, running_console, session

SOON_S = 6.0
"""It takes one or two. A consumer that is closed waits ten for the cluster, unless it is told otherwise."""


@pytest.mark.lengthy
@pytest.mark.parametrize("action", ["redrive", "drop"])
def test_a_job_does_not_keep_the_console(kshare_broker: Broker, tmp_path: Path, action: str) -> None:
    kshare_broker.create_topic("dlq.orders")
    kshare_broker.create_topic("again")
    kshare_broker.produce("dlq.orders", [b"x"] * 5_000, headers=[("__dlq.errors.group", b"shippers")])
    audit = tmp_path / "audit.log"
    target = {"to": "again"} if action == "redrive" else {}
    with running_console(kshare_broker.bootstrap, allow_changes=True, audit_log=audit) as console:
        plan = f"/dead-letters/plan?topic=dlq.orders&do={action}-all&to={target.get('to', '')}"
        form = {"action": action, "topic": "dlq.orders", "letters": "", **target}
        headers, token = session(console, plan)
        stalled = kshare_broker.faults.add(ShareFetchRequest, skip=1, times=None, swallow=True)
        assert console.request("/dead-letters/start", {**form, "token": token}, headers)[0] == 303
        eventually(lambda: stalled.hits, bool)
        kshare_broker.faults.add(times=None, swallow=True)
        began = time.monotonic()
    assert time.monotonic() - began < SOON_S
    begun, ended = (json.loads(line) for line in audit.read_text().splitlines())
    assert begun["outcome"] == "begun"
    assert ended["outcome"] == "failed: KshareError: the console was stopped"
    assert "counts" in ended
