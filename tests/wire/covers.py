"""An assertion that holds for the names of any bytes."""

from __future__ import annotations

from kshare.wire.named_bytes import NamedBytes


def assert_complete(named: NamedBytes) -> None:
    """Covers cover their buffers, and parts are in their parents."""
    for number, buffer in enumerate(named.buffers):
        end = 0
        for one, start in zip(buffer.cover, buffer.starts, strict=True):
            span = named.spans[one]
            assert (span.buffer, span.offset, start) == (number, end, end)
            end = span.end
        assert end == len(buffer.data)
    for span in named.spans:
        parent = None if span.parent is None else named.spans[span.parent]
        assert parent is None or parent.id < span.id
        if parent and parent.buffer == span.buffer:
            assert parent.offset <= span.offset <= span.end <= parent.end
