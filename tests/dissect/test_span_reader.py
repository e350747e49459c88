"""The limit of spans: at most so many are made, and the rest of the bytes is one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.dissect import Dissection, DissectionLimit, dissect_records, dissect_request, dissect_response
from kshare.protocol.compression import Compression
from kshare.protocol.decompression_budget import DecompressionBudget
from tests.cli import frames
from tests.dissect.tiling import assert_tiled


def size(reading: Dissection) -> int:
    """How many spans it has, with those of decompressed records."""
    inside = [span.inflated for span in reading.spans if span.inflated]
    return sum(1 for _ in reading.root.walk()) + sum(map(size, inside))


def assert_limited(reading: Dissection, data: bytes, most: int) -> None:
    assert_tiled(reading, data)
    assert size(reading) <= most + 6  # roots and rests aren't counted
    assert reading.is_cut == (reading.error is not None)
    assert not reading.is_cut or "the limit of fields is reached" in str(reading.error)


@given(st.integers(0, 200), st.sampled_from(Compression))
def test_every_limit_covers_all_bytes(most: int, compression: Compression) -> None:
    batches = frames.batch() + frames.batch(compression=compression)
    request, response = frames.fetch_request(), frames.fetch_response()
    limit = DissectionLimit(most, DecompressionBudget(1_000_000))
    assert_limited(dissect_records(batches, limit=limit), batches, most)
    limit = DissectionLimit(most, DecompressionBudget(1_000_000))
    assert_limited(dissect_request(request, limit=limit), request, most)
    limit = DissectionLimit(most, DecompressionBudget(1_000_000))
    assert_limited(dissect_response(response, 78, 2, limit=limit), response, most)


@pytest.mark.parametrize("compression", [codec for codec in Compression if codec])
def test_decompressed_bytes_are_limited(compression: Compression) -> None:
    data = frames.batch(compression=compression)
    limit = DissectionLimit(1000, DecompressionBudget(1_000_000))
    whole = dissect_records(data, limit=limit)
    (plain,) = (len(span.inflated.data) for span in whole.spans if span.inflated)
    assert limit.unpacked.left == 1_000_000 - plain
    refused = dissect_records(data, limit=DissectionLimit(1000, DecompressionBudget(plain - 1)))
    assert not any(span.inflated for span in refused.spans)
    assert "more than the" in refused.problems[0].reason
