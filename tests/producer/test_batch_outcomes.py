"""What error codes mean for a batch."""

from __future__ import annotations

import pytest

from kshare.producer.batch_outcomes import BatchOutcome, outcome_of
from kshare.protocol.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (ErrorCode.NONE, BatchOutcome.WRITTEN),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, BatchOutcome.DUPLICATE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, BatchOutcome.RETRY_OPEN),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, BatchOutcome.RETRY_OPEN),
        (ErrorCode.UNKNOWN_TOPIC_ID, BatchOutcome.RETRY_OPEN),
        (ErrorCode.KAFKA_STORAGE_ERROR, BatchOutcome.RETRY_OPEN),
        (ErrorCode.NOT_ENOUGH_REPLICAS, BatchOutcome.RETRY),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, BatchOutcome.RETRY_OPEN),
        (ErrorCode.REQUEST_TIMED_OUT, BatchOutcome.RETRY_OPEN),
        (ErrorCode.UNKNOWN_SERVER_ERROR, BatchOutcome.REFUSED_OPEN),
        (32_000, BatchOutcome.REFUSED_OPEN),
        (ErrorCode.MESSAGE_TOO_LARGE, BatchOutcome.SPLIT),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, BatchOutcome.REFUSED),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, BatchOutcome.RENUMBER),
        (ErrorCode.INVALID_PRODUCER_EPOCH, BatchOutcome.RENUMBER),
    ],
)
def test_meaning_of_a_code(code: int, outcome: BatchOutcome) -> None:
    assert outcome_of(code, is_transactional=False) is outcome


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED])
def test_old_epoch_of_a_transactional_producer_means_that_it_is_fenced(code: ErrorCode) -> None:
    assert outcome_of(code, is_transactional=True) is BatchOutcome.FENCED
