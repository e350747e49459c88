"""A budget of decompressed bytes: what all batches of a request take together."""

from __future__ import annotations

import pytest

from kshare.errors import CorruptBatchError, DecodeError
from kshare.protocol.compression import Compression, compress
from kshare.protocol.decompression_budget import BudgetSpentError, DecompressionBudget
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import read_batches

CODECS = [codec for codec in Compression if codec]


def batch(size: int, compression: Compression) -> bytes:
    builder = BatchBuilder(compression=compression)
    builder.append(bytes(size), timestamp=0)
    return bytes(builder.build())


@pytest.mark.parametrize("codec", CODECS)
def test_the_sum_is_bounded(codec: Compression) -> None:
    budget = DecompressionBudget(250_000, 200_000)
    found = list(read_batches(batch(100_000, codec) * 3, budget=budget))
    assert [len(next(found[number].records()).value or b"") for number in (0, 1)] == [100_000] * 2
    with pytest.raises(BudgetSpentError):
        found[2].open()
    assert 0 <= budget.left < 100_000


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_no_budget_could_read_is_corrupt(codec: Compression) -> None:
    budget = DecompressionBudget(1_000_000, 50_000)
    (large,) = read_batches(batch(100_000, codec), budget=budget)
    with pytest.raises(CorruptBatchError):
        large.open()
    assert budget.left >= 950_000


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_broken_is_paid_for(codec: Compression) -> None:
    """It may have been decompressed almost to its end, however often it is tried."""
    budget = DecompressionBudget(1_000_000, 500_000)
    data = compress(codec, bytes(range(256)) * 1000)
    with pytest.raises(DecodeError):
        budget.decompress(codec, data[:-5] + b"\xff" * 5)
    before = budget.left
    with pytest.raises(DecodeError):
        budget.decompress(codec, b"\xff" * 50)
    assert before <= 1_000_000
    assert budget.left >= before - 50 * 1032
