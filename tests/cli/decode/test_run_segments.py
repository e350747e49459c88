"""Log segments: batches by number and position, and decoded records of Kafka's internal topics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kshare.protocol.compression import Compression
from kshare.protocol.record_builder import BatchBuilder
from kshare.wire.batch_boundaries import batch_cuts
from tests.cli import frames
from tests.cli.running import Kshare


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(frames.state_segment())
    return path


def test_share_state_records_are_decoded(run: Kshare, segment: Path) -> None:
    done = run("decode", str(segment))
    assert (done.code, done.err) == (0, "")
    assert "ShareSnapshotKey" in done.out
    assert "startOffset 5" in done.out
    assert "deliveryState 2  acknowledged" in done.out


def test_fields_of_state_records_have_paths(run: Kshare, segment: Path) -> None:
    path = "records[1].records[0].value.stateBatches[0].lastOffset"
    done = run("decode", str(segment), "--json", "--field", path)
    assert json.loads(done.out)["value"] == 9


def test_json_has_one_document_per_batch(run: Kshare, segment: Path) -> None:
    out = run("decode", "--json", str(segment)).out
    first, end = json.JSONDecoder().raw_decode(out)
    second = json.loads(out[end:])
    assert second["offset"] == first["length"]
    key = second["batches"][0]["records"][0]["key"]
    assert (key["message"], key["body"]["groupId"]) == ("ShareUpdateKey", "orders")


@pytest.mark.parametrize("compression", Compression)
def test_other_records_stay_bytes(run: Kshare, compression: Compression) -> None:
    done = run("decode", frames.batch(compression=compression).hex())
    assert done.code == 0
    assert 'value "order 0"' in done.out
    assert "value ff00" in done.out


def test_error_names_its_batch(run: Kshare, segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    done = run("decode", str(segment))
    assert done.code == 1
    assert done.err.startswith("kshare: records[1].crc")


def test_unfinished_segment_ends_in_a_partial_batch(run: Kshare, segment: Path) -> None:
    segment.write_bytes(segment.read_bytes()[:-10])
    done = run("decode", str(segment))
    assert "partial batch  cut off after" in done.out


def test_batch_boundaries_cover_all_bytes() -> None:
    for data in (frames.state_segment(), b"\0" * 100, frames.batch() + b"rest", b"x"):
        cuts = list(batch_cuts(memoryview(data)))
        assert b"".join(data[start:end] for start, end in cuts) == data


@pytest.mark.lengthy
def test_key_without_batch_is_guessed(run: Kshare) -> None:
    done = run("decode", frames.state_key().hex())
    assert done.code == 0
    assert done.out.startswith("ShareSnapshotKey v0")
    assert "partition 3" in done.out


@pytest.fixture
def large_segment(tmp_path: Path) -> Path:
    """60 batches, a little more than 1 MiB."""
    path = tmp_path / "00000000000000000000.log"
    builders = [BatchBuilder(base_offset=2 * number) for number in range(60)]
    for builder in builders:
        builder.append(b"x" * 10_000, timestamp=1_750_000_000_000)
        builder.append(b"y" * 10_000, timestamp=1_750_000_000_001)
    path.write_bytes(b"".join(bytes(builder.build()) for builder in builders))
    return path


def test_large_segment_is_summarized(run: Kshare, large_segment: Path) -> None:
    done = run("decode", str(large_segment))
    *lines, totals, hint = done.out.splitlines()
    size = large_segment.stat().st_size
    assert (done.code, len(lines)) == (0, 60)
    assert totals == f"60 batches, 120 records, offsets 0-119, {size:,} bytes"
    assert "--tree" in hint
    assert lines[1].split() == [
        f"{size // 60}-{2 * size // 60 - 1}", "records[1]", "2-3", "2", "records",
        "2025-06-15T15:06:40.001", "no", "compression,", "create", "time",
    ]  # fmt: skip
    assert len(run("decode", str(large_segment), "--tree").out.splitlines()) > 60 * 10


def test_summary_option_summarizes_a_small_segment(run: Kshare, segment: Path) -> None:
    assert len(run("decode", "--summary", str(segment)).out.splitlines()) == 3
    first, second = map(json.loads, run("decode", "--summary", "--json", str(segment)).out.splitlines())
    assert (first["path"], first["baseOffset"], first["records"]) == ("records[0]", 0, 1)
    assert second["offset"] == first["length"]
    assert run("decode", "--summary", frames.fetch_request().hex()).out == "ShareFetchRequest v2  106 bytes\n"
    refused = run("decode", "--summary", "--hex", str(segment))
    assert refused.code == 2
    assert "--summary can't be combined with --hex or --field" in refused.err


def test_summary_reports_damage_and_continues(run: Kshare, large_segment: Path) -> None:
    data = bytearray(large_segment.read_bytes())
    data[len(data) // 60 + 500] ^= 1
    data = data[:-10]
    large_segment.write_bytes(data)
    done = run("decode", str(large_segment))
    assert done.code == 1
    assert "records[1] at byte" in done.err
    assert "the checksum is" in done.err
    assert "(and 1 more problem)" in done.err
    assert "58 batches, 116 records" in done.out
    assert "not a complete batch" in done.out


@pytest.mark.lengthy
def test_field_of_a_large_segment_is_found(run: Kshare, large_segment: Path) -> None:
    data = bytearray(large_segment.read_bytes())
    data[500] ^= 1  # damage in another batch doesn't matter
    large_segment.write_bytes(data)
    done = run("decode", str(large_segment), "--field", "records[59].records[1].value")
    assert (done.code, done.err) == (0, "")
    place, name = done.out.split()[:2]
    assert name == "value"
    assert len(place) < done.out.index("value")  # the columns are separated
