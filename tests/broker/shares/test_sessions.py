"""Share sessions: their epochs, their number, and their connections."""

from __future__ import annotations

import pytest

from kshare.broker.request_error import RequestError
from kshare.broker.shares.sessions import CLOSE, ShareSessions
from kshare.protocol.error_codes import ErrorCode

ONE, TWO = ("group", "one"), ("group", "two")
PARTITIONS = [(b"t" * 16, index) for index in range(3)]


def test_session_epochs_increase_by_one_and_wrap_around() -> None:
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


def test_unknown_session_is_not_found() -> None:
    sessions = ShareSessions()
    for epoch in (1, CLOSE):
        with pytest.raises(RequestError) as caught:
            sessions.next_epoch(ONE, epoch)
        assert caught.value.code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_number_of_sessions_is_limited() -> None:
    sessions = ShareSessions()
    first = sessions.open(ONE, 1, 1)
    assert sessions.open(ONE, 1, 1) is not first
    with pytest.raises(RequestError) as caught:
        sessions.open(TWO, 2, 1)
    assert caught.value.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert not sessions.close(first)
    assert sessions.close(sessions.next_epoch(ONE, CLOSE))
    assert sessions.open(TWO, 2, 1).epoch == 1


def test_sessions_of_a_connection_are_known() -> None:
    sessions = ShareSessions()
    sessions.open(ONE, 1, 10)
    second = sessions.open(TWO, 2, 10)
    assert sessions.of_connection(2) == [second]


def test_order_of_partitions_rotates() -> None:
    session = ShareSessions().open(ONE, 1, 10)
    session.change(PARTITIONS, [])
    first = session.rotated()
    session.epoch += 1
    assert session.rotated() == first[1:] + first[:1]
    session.change([], PARTITIONS[:2])
    assert session.rotated() == PARTITIONS[2:]
