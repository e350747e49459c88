"""What tests ask about the names of bytes."""

from __future__ import annotations

from kshare.wire.named_bytes import NamedBytes, NamedSpan


def assert_complete(named: NamedBytes) -> None:
    """Covers cover their buffers, and parts are in their parents."""
    for number, buffer in enumerate(named.buffers):
        end = 0
        for span_id, start in zip(buffer.cover, buffer.starts, strict=True):
            span = named.spans[span_id]
            assert (span.buffer, span.offset, start) == (number, end, end)
            end = span.end
        assert end == len(buffer.data)
    for span in named.spans:
        parent = None if span.parent is None else named.spans[span.parent]
        assert parent is None or parent.id < span.id
        if parent and parent.buffer == span.buffer:
            assert parent.offset <= span.offset <= span.end <= parent.end


def span_at(named: NamedBytes, offset: int) -> NamedSpan:
    """The span that names this byte of the first buffer."""
    cover = (named.spans[span_id] for span_id in named.buffers[0].cover)
    return next(span for span in cover if span.offset <= offset < span.end)


def span_with(named: NamedBytes, path: str) -> NamedSpan:
    """The span with this path, the widest if there are several."""
    return next(span for span in named.spans if span.path == path)
