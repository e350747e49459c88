"""The dissector: divides bytes into named spans. Uses the same schemas as the codecs, but none of their code.

Every byte of a frame, including headers and record batches, belongs to exactly one leaf of a tree of spans. Malformed
frames are shown up to the error, with the reason.
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
from .spans import ByteSpan, Dissection, DissectionLimit, DissectionProblem

__all__ = [
    "ByteSpan",
    "Dissection",
    "DissectionLimit",
    "DissectionProblem",
    "dissect_message",
    "dissect_records",
    "dissect_request",
    "dissect_response",
    "dissect_versioned",
    "dissection_json",
]
