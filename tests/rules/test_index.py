"""Protocol rules that clients have violated. For each there is a test somewhere whose name begins with test_rule_N_.

 1  the request that opens a session has no acknowledgements; those queued for the old session fail
 2  after session errors, timeouts and broken connections, a new session is opened
 3  when a broker restarts, all acquired records are lost, even if it stays the leader and no request was in flight
 4  acknowledgements go to the broker that delivered; if the leader moved they fail, and the partition is forgotten
 5  a partition named only for its acknowledgements joins the session, and must be forgotten afterwards
 6  a request with renewals is marked as such, fetches nothing, and may be forbidden by the group
 7  offsets without records are acknowledged as gaps; corrupt batches cause neither endless redelivery nor silent loss
 8  a session's requests are sent one after another, so acknowledgements mustn't wait long for a parked fetch
 9  locks also expire while records wait in the client; expired records aren't handed out
10  a deleted topic ends its leases at once; an unknown topic id is a new topic at first, and a recreated one later
11  an assignment may be newer than the metadata, and isn't sent twice
12  the assignment arrives with a later heartbeat, so that heartbeat is sent soon
13  a new group starts at the end, and only the group's own configuration changes that
14  the group's coordinator responds to requests for offsets, the share coordinator those for share state
15  one request of a session at a time; responses that arrive after a reset are dropped
16  closing acknowledges, releases, ends the session and leaves the group, in bounded time
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_TESTS = Path(__file__).resolve().parents[1]
_NAMED = re.compile(r"^(?:async )?def test_rule_(\d+)_", re.MULTILINE)
_RULES = [int(line.split()[0]) for line in (__doc__ or "").splitlines() if line[:2].strip().isdigit()]


def test_the_list_is_complete() -> None:
    assert list(range(1, 17)) == _RULES


@pytest.mark.parametrize("rule", _RULES)
def test_each_rule_has_a_test(rule: int) -> None:
    assert rule in {
        int(number)
        for path in _TESTS.rglob("test_*.py")
        for number in _NAMED.findall(path.read_text(encoding="utf-8"))
    }
