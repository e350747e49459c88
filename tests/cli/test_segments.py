"""Log segments: batches by number and place, and the records of Kafka's own topics looked into."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kshare.cli.batch_cuts import batch_cuts
from kshare.protocol.compression import Compression
from tests.cli import frames
from tests.cli.running import Kshare


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(frames.state_segment())
    return path


def test_state_records_are_looked_into(run: Kshare, segment: Path) -> None:
    done = run("decode", str(segment))
    assert (done.code, done.err) == (0, "")
    assert "ShareSnapshotKey" in done.out
    assert "startOffset 5" in done.out
    assert "deliveryState 2  acknowledged" in done.out


def test_their_fields_have_paths(run: Kshare, segment: Path) -> None:
    path = "records[1].records[0].value.stateBatches[0].lastOffset"
    done = run("decode", str(segment), "--json", "--field", path)
    assert json.loads(done.out)["value"] == 9


def test_every_batch_is_a_document(run: Kshare, segment: Path) -> None:
    out = run("decode", "--json", str(segment)).out
    first, end = json.JSONDecoder().raw_decode(out)
    second = json.loads(out[end:])
    assert second["offset"] == first["length"]
    key = second["batches"][0]["records"][0]["key"]
    assert (key["message"], key["body"]["groupId"]) == ("ShareUpdateKey", "orders")


@pytest.mark.parametrize("compression", Compression)
def test_anybody_elses_records_stay_bytes(run: Kshare, compression: Compression) -> None:
    done = run("decode", frames.batch(compression=compression).hex())
    assert done.code == 0
    assert 'value "order 0"' in done.out
    assert "value ff00" in done.out


def test_a_break_names_its_batch(run: Kshare, segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    done = run("decode", str(segment))
    assert done.code == 1
    assert done.err.startswith("kshare: records[1].crc")


def test_a_segment_that_is_still_being_written_ends_in_a_partial_batch(run: Kshare, segment: Path) -> None:
    segment.write_bytes(segment.read_bytes()[:-10])
    done = run("decode", str(segment))
    assert "partial batch  cut off after" in done.out


def test_cuts_tile_any_bytes() -> None:
    for data in (frames.state_segment(), b"\0" * 100, frames.batch() + b"rest", b"x"):
        cuts = list(batch_cuts(memoryview(data)))
        assert b"".join(data[start:end] for start, end in cuts) == data


def test_a_key_alone_is_guessed(run: Kshare) -> None:
    done = run("decode", frames.state_key().hex())
    assert done.code == 0
    assert done.out.startswith("ShareSnapshotKey v0")
    assert "partition 3" in done.out
