"""Assertions that hold for the dissection of any bytes."""

from __future__ import annotations

from collections import Counter

from kshare.dissect import ByteSpan, Dissection


def assert_tiled(dissection: Dissection, data: bytes | memoryview) -> None:
    """The leaf spans cover the buffer in order, each with a unique path; nested spans cover exactly their parts."""
    position = 0
    leaves = dissection.spans
    for leaf in leaves:
        assert leaf.offset == position, f"{leaf.path} starts at {leaf.offset}, not {position}"
        assert leaf.raw == data[leaf.offset : leaf.end]
        position = leaf.end
    assert position == len(data)
    assert b"".join(leaf.raw for leaf in leaves) == data
    twice = [path for path, count in Counter(leaf.path for leaf in leaves).items() if count > 1]
    assert not twice, f"paths used twice: {twice}"
    _assert_nested(dissection)


def _assert_nested(dissection: Dissection) -> None:
    for _, span in dissection.root.walk():
        if span.parts:
            assert span.offset == span.parts[0].offset
            assert span.end == span.parts[-1].end
            assert span.raw == dissection.data[span.offset : span.end]
        if span.inflated:
            assert_tiled(span.inflated, span.inflated.data)
    if dissection.error:
        assert dissection.error in dissection.problems
        assert dissection.error.reason
        assert 0 <= dissection.error.offset <= len(dissection.data)


def found(dissection: Dissection, path: str) -> ByteSpan:
    span = dissection.find(path)
    assert span is not None, f"no span {path}"
    return span
