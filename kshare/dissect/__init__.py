"""The second opinion: bytes become named spans, from the same schemas and with none of the codecs' code.

Every byte of a frame, headers and record batches included, belongs to exactly one leaf of a tree of spans. Broken
frames are shown up to the break, with the reason.
"""

from __future__ import annotations

from .doors import (
    dissect_message,
    dissect_records,
    dissect_request,
    dissect_response,
    dissect_versioned,
)
from .kafka_json import as_json
from .spans import Dissection, Problem, Span

__all__ = [
    "Dissection",
    "Problem",
    "Span",
    "as_json",
    "dissect_message",
    "dissect_records",
    "dissect_request",
    "dissect_response",
    "dissect_versioned",
]
