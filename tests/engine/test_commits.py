"""Commits: waiting for confirmation, and results for the next commit."""

from __future__ import annotations

from contextlib import suppress

import pytest

from kshare.engine.commits import Commits
from kshare.engine.signals import Signal
from kshare.errors import KshareError
from kshare.state.lease import Lease

TOPIC = b"t" * 16


def test_is_confirming_while_a_commit_waits() -> None:
    commits = Commits(Signal())
    with commits.confirming(), commits.confirming():
        assert commits.is_confirming
    assert not commits.is_confirming
    with pytest.raises(LookupError), commits.confirming():
        raise LookupError
    assert not commits.is_confirming


def test_results_of_a_failed_commit_are_returned_by_the_next() -> None:
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


def test_losses_without_commits_are_bounded() -> None:
    commits = Commits(Signal())
    for number in range(5000):
        commits.on_loss(Lease((TOPIC, number % 3), number, number, 1), KshareError(f"loss {number}"))
    assert len(commits.losses) == 1000
    with commits.confirmation([]) as confirmation:
        results = confirmation.all_results(lambda partition: partition)
    assert {partition: str(error) for partition, error in results.items()} == {
        (TOPIC, 2): "loss 4997",
        (TOPIC, 0): "loss 4998",
        (TOPIC, 1): "loss 4999",
    }
