"""Commits: waiting for confirmation, and results for the next commit."""

from __future__ import annotations

from contextlib import suppress

import pytest

from kshare.engine.commits import Commits
from kshare.engine.confirmation import Results
from kshare.engine.notifier import Notifier
from kshare.errors import KshareError
from kshare.protocol.error_codes import ErrorCode
from kshare.state.acks import AckOutcome, PartitionAcks
from kshare.state.lease import ACCEPT, REJECT, RELEASE, RENEW, Lease
from kshare.state.session import AckRange

TOPIC = b"t" * 16


def test_is_confirming_while_a_commit_waits() -> None:
    commits = Commits(Notifier())
    with commits.confirming(), commits.confirming():
        assert commits.is_confirming
    assert not commits.is_confirming
    with pytest.raises(LookupError), commits.confirming():
        raise LookupError
    assert not commits.is_confirming


def test_results_of_a_failed_commit_are_returned_by_the_next() -> None:
    commits = Commits(Notifier())
    error = KshareError("refused")
    commits.results.note_error((TOPIC, 0), error)
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
    commits = Commits(Notifier())
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


def test_refusals_are_superseded_by_confirmations_of_the_same_records() -> None:
    place = (TOPIC, 0)
    results = Results()
    refusal = KshareError("refused")
    results.note_outcome(place, [(0, 4), (8, 9)], refusal)
    results.note_outcome(place, [(0, 8)], None, settled=lambda: [(0, 8)])
    assert results == {place: refusal}
    failed, results = results, Results()
    results.add(failed)
    results.note_outcome(place, [(9, 20)], None, settled=lambda: [(9, 20)])
    assert results == {place: None}
    results.note_outcome(place, [(30, 30)], refusal)
    assert results == {place: refusal}


def test_losses_and_very_many_refusals_are_not_superseded() -> None:
    place = (TOPIC, 0)
    refusal, loss = KshareError("refused"), KshareError("lost")
    results = Results()
    for offset in range(0, 2002, 2):
        results.note_outcome(place, [(offset, offset)], refusal)
    results.note_outcome(place, [(0, 5000)], None, settled=lambda: [(0, 5000)])
    assert results == {place: refusal}
    results = Results()
    results.note_outcome(place, [(0, 0)], refusal)
    results.note_error(place, loss)
    results.note_outcome(place, [(0, 0)], None, settled=lambda: [(0, 0)])
    assert results == {place: loss}


def test_a_renewal_confirms_nothing_that_was_decided_meanwhile() -> None:
    """The response to a renewal isn't the one that a commit waits for, though it is about the same offsets."""
    place = (TOPIC, 0)
    commits, acks = Commits(Notifier()), PartitionAcks(place)
    lease = Lease(place, 10, 12, 1)
    acks.add(lease)
    lease.decide_held(RENEW)
    assert acks.take(renewals=True)
    lease.decide(11, ACCEPT)
    with commits.confirmation([lease]) as confirmation:
        for outcome in acks.on_response(0):
            commits.on_outcome(outcome, None)
        assert not confirmation.is_settled
        assert acks.take(renewals=False)
        for outcome in acks.on_response(0):
            commits.on_outcome(outcome, None)
        assert confirmation.is_settled
        assert confirmation.results == {place: None}


def test_a_renewal_that_fails_ends_no_wait_for_what_was_decided_meanwhile() -> None:
    place = (TOPIC, 0)
    commits, acks, error = Commits(Notifier()), PartitionAcks(place), KshareError("not renewed")
    lease = Lease(place, 10, 10, 1)
    acks.add(lease)
    lease.decide_held(RENEW)
    assert acks.take(renewals=True)
    lease.decide(10, ACCEPT)
    with commits.confirmation([lease]) as confirmation:
        for outcome in acks.on_response(ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            commits.on_outcome(outcome, error)
        assert not confirmation.is_settled
        acks.take(renewals=False)
        for outcome in acks.on_response(0):
            commits.on_outcome(outcome, None)
        assert confirmation.is_settled


def test_the_next_commit_is_told_of_what_was_decided_during_a_renewal() -> None:
    """An earlier commit waits for the renewal only. It got the refusal, and the next one said that all was accepted."""
    place = (TOPIC, 0)
    commits, acks, error = Commits(Notifier()), PartitionAcks(place), KshareError("refused")
    lease = Lease(place, 10, 11, 1)
    acks.add(lease)
    lease.decide(11, ACCEPT)
    lease.decide_held(RENEW)
    assert acks.take(renewals=True)
    with commits.confirmation([lease]) as confirmation:
        lease.decide(10, ACCEPT)
        commits.on_outcome(AckOutcome(place, (AckRange(10, 10, bytes([ACCEPT])),), 121), error)
        commits.on_outcome(AckOutcome(place, (AckRange(11, 11, bytes([ACCEPT])),), 121), error)
    assert confirmation.results == commits.results == {place: error}
    commits.on_outcome(AckOutcome(place, (AckRange(10, 10, bytes([ACCEPT])),), 0), None)
    assert commits.results == {place: None}  # it came again, and the commit was told of offset 11


def test_a_renewal_supersedes_no_refusal() -> None:
    place = (TOPIC, 0)
    commits, acks, error = Commits(Notifier()), PartitionAcks(place), KshareError("refused")
    commits.on_outcome(AckOutcome(place, (AckRange(10, 10, bytes([ACCEPT])),), 121), error)
    lease = Lease(place, 10, 10, 2)
    acks.add(lease)
    lease.decide_held(RENEW)
    acks.take(renewals=True)
    for outcome in acks.on_response(0):
        commits.on_outcome(outcome, None)
    assert commits.results == {place: error}


def test_a_release_does_not_make_up_for_a_refused_accept() -> None:
    """What came again and was given back unseen was never accepted, and commit() said that it was."""
    place = (bytes(16), 0)
    commits = Commits(Notifier())
    commits.on_outcome(AckOutcome(place, (AckRange(7, 9, bytes([ACCEPT])),), 121), KshareError("too late"))
    commits.on_outcome(AckOutcome(place, (AckRange(5, 12, bytes([RELEASE])),), 0), None)
    assert commits.results[place] is not None
    commits.on_outcome(AckOutcome(place, (AckRange(7, 9, bytes([ACCEPT, REJECT, RELEASE])),), 0), None)
    assert commits.results[place] is not None
    commits.on_outcome(AckOutcome(place, (AckRange(9, 9, bytes([ACCEPT])),), 0), None)
    assert commits.results[place] is None


def test_a_commit_gets_what_was_decided_while_another_one_waited() -> None:
    """One refusal can be about both. The earlier commit had all of it, and the next one said that all was accepted."""
    place = (TOPIC, 0)
    earlier, later = Lease(place, 5, 5, 1), Lease(place, 7, 9, 1)
    acks = PartitionAcks(place)
    acks.add(earlier)
    acks.add(later)
    commits = Commits(Notifier())
    refusal = KshareError("too late")
    earlier.decide(5, ACCEPT)
    with commits.confirmation(acks.leases) as first:
        for offset in (7, 8, 9):
            later.decide(offset, ACCEPT)
        ranges = (AckRange(5, 5, bytes([ACCEPT])), AckRange(7, 9, bytes([ACCEPT])))
        commits.on_outcome(AckOutcome(place, ranges, 121), refusal)
        assert first.results == {place: refusal}
    with commits.confirmation(acks.leases) as second:
        assert second.results == {place: refusal}


def test_a_commit_is_told_what_a_pending_one_was_told_before() -> None:
    """Its caller is another task, and the refusal is about a record that was accepted before both."""
    place, lost = (TOPIC, 1), Lease((TOPIC, 2), 0, 0, 1)
    commits, error = Commits(Notifier()), KshareError("refused")
    accepted = Lease(place, 7, 7, 1)
    accepted.decide(7, ACCEPT)
    with commits.confirmation([accepted]):
        commits.on_loss(lost, error)
        commits.on_outcome(AckOutcome(place, (AckRange(7, 7, bytes([ACCEPT])),), 121), error)
        with commits.confirmation([]) as later:
            pass
        assert later.results == {place: error}
        assert later.losses == [(lost, error)]
        with pytest.raises(ZeroDivisionError), commits.confirmation([]):
            raise ZeroDivisionError
    assert commits.losses == [(lost, error)]
    with commits.confirmation([]) as last:
        pass
    assert last.results == {place: error}
