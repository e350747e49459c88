"""Runs the tests that failed once more, one by one: beside others, a test may fail only because it got no processor.

Tests wait for real brokers, browsers and Spark, each wait has a deadline, and the machine may have two cores. What
fails alone too is a defect, and so is a failure of many.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

FAILED = 1
"""pytest's exit code if tests failed, and nothing else went wrong."""
MOST = 5
"""How many of some 19,000 tests may have failed. More of them have a common cause, which has to be found."""
_FAILED_LAST = Path(".pytest_cache/v/cache/lastfailed")


def repeat_failed(folder: Path, exit_code: int, repeat: Callable[[list[str]], int]) -> tuple[int, str]:
    """Have the tests that failed run once more, if they are few. Returns an exit code, and what to say about it."""
    failed = _failed_last(folder) if exit_code == FAILED else []
    if not 0 < len(failed) <= MOST:
        return exit_code, ""
    exit_code = repeat(failed)
    what = "failed alone, too" if exit_code else "failed beside others, and passed alone"
    return exit_code, "\n  ".join((f"these tests {what}; their first failure is shown above:", *failed))


def _failed_last(folder: Path) -> list[str]:
    try:
        names: dict[str, bool] = json.loads((folder / _FAILED_LAST).read_text())
    except (OSError, ValueError):
        return []
    return sorted(names)
