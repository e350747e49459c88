"""Reports of long tests, on the terminal and in the documentation."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.kafka.jars import NEWEST_RELEASE

REPORTS = Path(__file__).resolve().parents[2] / "docs" / "reports"


def write_report(name: Path, title: str, report: str) -> None:
    """Write the report to docs/reports."""
    text = f"# {title}\n\nWritten by `tools/test --long`, against Kafka {NEWEST_RELEASE}.\n\n{report}\n"
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / name).write_text(text, encoding="utf-8")


def write_section(name: Path, title: str, section: str, report: str) -> None:
    """Write one section of a report, which may have others from runs against other brokers."""
    path = REPORTS / name
    written = path.read_text(encoding="utf-8") if path.exists() else ""
    _, *parts = written.split("\n## ")
    sections = dict(part.split("\n\n", 1) for part in parts)
    sections[section] = report
    texts = [f"# {title}\n\nWritten by `tools/test --long`."]
    texts += [f"## {name}\n\n{text.strip()}" for name, text in sorted(sections.items())]
    REPORTS.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(texts) + "\n", encoding="utf-8")


def say(capsys: pytest.CaptureFixture[str], report: str) -> None:
    """Print the report, whether the test passes or not."""
    with capsys.disabled():
        sys.stdout.write(f"\n{report}\n")
