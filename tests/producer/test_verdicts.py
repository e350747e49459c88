"""What error codes mean for a batch."""

from __future__ import annotations

import pytest

from kshare.producer.verdicts import BatchVerdict, verdict_on
from kshare.protocol.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (ErrorCode.NONE, BatchVerdict.WRITTEN),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, BatchVerdict.DUPLICATE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, BatchVerdict.RETRY_OPEN),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, BatchVerdict.RETRY_OPEN),
        (ErrorCode.UNKNOWN_TOPIC_ID, BatchVerdict.RETRY_OPEN),
        (ErrorCode.KAFKA_STORAGE_ERROR, BatchVerdict.RETRY_OPEN),
        (ErrorCode.NOT_ENOUGH_REPLICAS, BatchVerdict.RETRY),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, BatchVerdict.RETRY_OPEN),
        (ErrorCode.REQUEST_TIMED_OUT, BatchVerdict.RETRY_OPEN),
        (ErrorCode.UNKNOWN_SERVER_ERROR, BatchVerdict.REFUSED_OPEN),
        (32_000, BatchVerdict.REFUSED_OPEN),
        (ErrorCode.MESSAGE_TOO_LARGE, BatchVerdict.SPLIT),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, BatchVerdict.REFUSED),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, BatchVerdict.RENUMBER),
        (ErrorCode.INVALID_PRODUCER_EPOCH, BatchVerdict.RENUMBER),
    ],
)
def test_meaning_of_a_code(code: int, verdict: BatchVerdict) -> None:
    assert verdict_on(code, is_transactional=False) is verdict


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED])
def test_old_epoch_of_a_transactional_producer_means_that_it_is_fenced(code: ErrorCode) -> None:
    assert verdict_on(code, is_transactional=True) is BatchVerdict.FENCED
