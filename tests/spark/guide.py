"""The guide to Spark, whose examples are run."""

from __future__ import annotations

from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "spark.md"
WITH_JARS = ('format("kafka")', 'format("delta")')
"""Run by `test_writing_back`, under the Spark that these jars are for."""
