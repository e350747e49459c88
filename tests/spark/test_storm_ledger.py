"""The storm's ledger is read while other processes write to it."""

from __future__ import annotations

from pathlib import Path

from tests.spark.real_storm.fates import Ledger


def test_a_line_that_is_being_written_is_left_for_the_next_call(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    assert ledger.read("written") == []
    ledger.report("written", rows=3)
    complete = (tmp_path / "ledger").read_bytes()

    for size in range(1, len(complete)):
        (tmp_path / "ledger").write_bytes(complete + complete[:size])
        assert [entry["rows"] for entry in ledger.read("written")] == [3]
    (tmp_path / "ledger").write_bytes(complete + complete)
    assert [entry["rows"] for entry in ledger.read("written")] == [3, 3]
