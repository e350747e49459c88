"""Rules of the protocol that clients got wrong: each has a test named after it, somewhere in this suite.

 1  the request that opens a session carries no acknowledgements; what was queued for the old one is failed back
 2  errors of the session, time-outs and broken connections heal by opening it anew
 3  a broker that restarts has lost what was acquired, even if it stays the leader and nothing was under way
 4  acknowledgements go to who delivered; if leadership moved they fail here, and the partition is forgotten there
 5  a partition named only to be acknowledged joins the session, and is forgotten afterwards
 6  renewing is marked as such, asks for nothing, and may be forbidden by the group
 7  offsets without records are gaps; broken batches neither spin nor vanish
 8  requests of a session go one after another, so acknowledgements mustn't wait long behind a parked fetch
 9  what waits in the client burns its lock, and isn't handed out when that has run out
10  a deleted topic ends what is pending at once; an unknown id is a new topic at first, a recreated one later
11  an assignment may be ahead of the metadata, and isn't sent twice
12  the assignment comes with a later heartbeat, which is sent soon
13  a new group begins at the end, and only the group's own configuration changes that
14  offsets are asked of the group's coordinator, share state of the share coordinator
15  one request of a session at a time; what comes after a reset is dropped
16  closing settles, releases, ends the session and leaves, in bounded time
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_TESTS = Path(__file__).resolve().parents[1]
_NAMED = re.compile(r"^(?:async )?def test_rule_(\d+)_", re.MULTILINE)
_RULES = [int(line.split()[0]) for line in (__doc__ or "").splitlines() if line[:2].strip().isdigit()]


def test_the_list_is_whole() -> None:
    assert list(range(1, 17)) == _RULES


@pytest.mark.parametrize("rule", _RULES)
def test_a_test_is_named_after_it(rule: int) -> None:
    assert rule in {
        int(number)
        for path in _TESTS.rglob("test_*.py")
        for number in _NAMED.findall(path.read_text(encoding="utf-8"))
    }
