"""The page of figures: a section a member."""

from __future__ import annotations

from pathlib import Path

from tools.benches import report


def test_a_member_measured_again_replaces_its_section_alone(tmp_path: Path) -> None:
    report.write(tmp_path, "tools/bench consume sharing", {"consume": "old", "sharing": "shared\n\n"})
    page = report.write(tmp_path, "tools/bench consume", {"consume": "new"}).read_text(encoding="utf-8")
    assert page.startswith("# Benchmarks")
    assert "old" not in page
    assert "`tools/bench consume` on Python" in page
    assert "```text\nnew\n```" in page
    assert "```text\nshared\n```" in page
    assert page.index("new") < page.index("shared")


def test_writing_twice_changes_nothing(tmp_path: Path) -> None:
    page = report.write(tmp_path, "c", {"memory": "1 | 2", "latency": "3"})
    before = page.read_bytes()
    assert report.write(tmp_path, "c", {"latency": "3"}).read_bytes() == before
