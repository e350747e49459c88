"""Share sessions: epochs, limits, and whose they are."""

from __future__ import annotations

import pytest

from kshare.broker.request_error import RequestError
from kshare.broker.shares.sessions import CLOSE, ShareSessions
from kshare.protocol.error_codes import ErrorCode

ONE, TWO = ("group", "one"), ("group", "two")
PARTITIONS = [(b"t" * 16, index) for index in range(3)]


def test_epochs_go_up_one_by_one_and_round() -> None:
    sessions = ShareSessions()
    session = sessions.open(ONE, 1, 10)
    assert sessions.next_epoch(ONE, 1) is session
    assert session.epoch == 2
    for wrong in (1, 3, -2):
        with pytest.raises(RequestError) as caught:
            sessions.next_epoch(ONE, wrong)
        assert caught.value.code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    session.epoch = 2**31 - 1
    assert sessions.next_epoch(ONE, 2**31 - 1).epoch == 1


def test_no_session_no_epoch() -> None:
    sessions = ShareSessions()
    for epoch in (1, CLOSE):
        with pytest.raises(RequestError) as caught:
            sessions.next_epoch(ONE, epoch)
        assert caught.value.code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_there_are_only_so_many() -> None:
    sessions = ShareSessions()
    first = sessions.open(ONE, 1, 1)
    assert sessions.open(ONE, 1, 1) is not first
    with pytest.raises(RequestError) as caught:
        sessions.open(TWO, 2, 1)
    assert caught.value.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert not sessions.close(first)
    assert sessions.close(sessions.next_epoch(ONE, CLOSE))
    assert sessions.open(TWO, 2, 1).epoch == 1


def test_a_session_ends_with_the_connection_that_opened_it() -> None:
    sessions = ShareSessions()
    sessions.open(ONE, 1, 10)
    second = sessions.open(TWO, 2, 10)
    assert sessions.of_connection(2) == [second]


def test_partitions_take_turns() -> None:
    session = ShareSessions().open(ONE, 1, 10)
    session.change(PARTITIONS, [])
    first = session.rotated()
    session.epoch += 1
    assert session.rotated() == first[1:] + first[:1]
    session.change([], PARTITIONS[:2])
    assert session.rotated() == PARTITIONS[2:]
