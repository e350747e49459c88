"""Runs Kafka's command-line tools from jars, against any cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from tools.kafka import archive
from tools.kafka.jars import TOOLS, class_path
from tools.kafka.java import SHORT_LIVED, find_java

TOOL_DEADLINE_S = 120.0


def run_tool(
    main_class: str, *arguments: str, given: str = "", jars: str = TOOLS, options: Sequence[str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a tool from these jars, with `given` as its standard input. `options` are for its JVM.

    Raises CalledProcessError if it fails, and TimeoutExpired if it hangs.
    """
    loading = archive.loading(jars) if options is None else options
    done = subprocess.run(
        [find_java(), *SHORT_LIVED, *loading, "-cp", class_path(jars), main_class, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=TOOL_DEADLINE_S,
        check=False,
    )
    done.check_returncode()
    return done
