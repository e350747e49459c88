"""The second opinion: bytes become named spans, from the same schemas and with none of the codecs' code.

Every byte of a frame, headers and record batches included, belongs to exactly one leaf of a tree of spans. Broken
frames are shown up to the break, with the reason.
"""

from __future__ import annotations

from .entry_points import (
    dissect_message,
    dissect_records,
    dissect_request,
    dissect_response,
    dissect_versioned,
)
from .kafka_json import dissection_json
from .spans import ByteSpan, Dissection, DissectionProblem

__all__ = [
    "ByteSpan",
    "Dissection",
    "DissectionProblem",
    "dissect_message",
    "dissect_records",
    "dissect_request",
    "dissect_response",
    "dissect_versioned",
    "dissection_json",
]
