"""Which kinds of Spark sessions a test runs with, if not with all."""

from __future__ import annotations

import pytest

mostly_classic = pytest.mark.parametrize(
    "any_spark", ["classic", pytest.param("connect", marks=pytest.mark.long)], indirect=True
)
"""With Spark Connect only in long runs: for tests that take long, and whose errors and rows other tests compare."""
