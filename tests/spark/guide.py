"""The Spark guide, whose examples are run."""

from __future__ import annotations

from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "spark.md"
WITH_JARS = ('format("delta")',)
"""Examples with these are run by `test_writing_back`, with the Spark release of that jar."""
