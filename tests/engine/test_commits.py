"""Who waits for confirmation, and what the next commit is told."""

from __future__ import annotations

from contextlib import suppress

import pytest

from kshare.engine.commits import Commits
from kshare.engine.signals import Signal
from kshare.errors import KshareError

TOPIC = b"t" * 16


def test_who_waits_for_confirmation_is_known_while_it_waits() -> None:
    commits = Commits(Signal())
    with commits.confirming(), commits.confirming():
        assert commits.is_confirming
    assert not commits.is_confirming
    with pytest.raises(LookupError), commits.confirming():
        raise LookupError
    assert not commits.is_confirming


def test_what_a_commit_that_failed_would_have_told_the_next_one_tells() -> None:
    commits = Commits(Signal())
    error = KshareError("refused")
    commits.results = {(TOPIC, 0): error}
    with suppress(TimeoutError), commits.confirmation([]) as first:
        assert first.results == {(TOPIC, 0): error}
        assert commits.results == {}
        assert commits.is_confirming
        raise TimeoutError
    assert commits.results == {(TOPIC, 0): error}
    assert not commits.is_confirming
    with commits.confirmation([]) as second:
        assert second.results == {(TOPIC, 0): error}
    assert commits.results == {}
    assert commits.has_committed
