"""The dissector with the golden vectors: it must show what Kafka's own classes wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kshare.dissect import dissect_message, dissection_json
from kshare.dissect.fields import index
from tests.dissect.tiling import assert_tiled

_GOLDEN = Path(__file__).resolve().parent.parent / "golden"


@pytest.mark.parametrize("name", sorted(index.MODULES))
def test_spans_cover_kafkas_bytes_and_show_their_values(name: str) -> None:
    vectors = json.loads((_GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    assert vectors
    for vector in vectors:
        data = bytes.fromhex(vector["hex"])
        # The bytes of records fields in the vectors aren't record batches.
        dissection = dissect_message(name, vector["version"], data, records=False)
        assert_tiled(dissection, data)
        assert dissection.problems == []
        assert dissection_json(dissection) == vector["json"]


@pytest.mark.parametrize("name", sorted(index.MODULES))
def test_spans_cover_kafkas_bytes_truncated_anywhere(name: str) -> None:
    vectors = json.loads((_GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    data = bytes.fromhex(vectors[-1]["hex"])
    for length in range(0, len(data), max(1, len(data) // 300)):
        cut = dissect_message(name, vectors[-1]["version"], data[:length])
        assert_tiled(cut, data[:length])
        assert cut.error is not None
