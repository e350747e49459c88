"""Kafka's command-line tools, run from the same jars as the brokers, against any cluster."""

from __future__ import annotations

import subprocess

from tools.kafka.jars import TOOLS, class_path
from tools.kafka.java import find_java

TOOL_DEADLINE_S = 120.0


def run_tool(
    main_class: str, *arguments: str, given: str = "", jars: str = TOOLS
) -> subprocess.CompletedProcess[str]:
    """Runs a tool of these jars, with `given` as its standard input.

    One that fails raises CalledProcessError, one that hangs TimeoutExpired.
    """
    done = subprocess.run(
        [find_java(), "-cp", class_path(jars), main_class, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=TOOL_DEADLINE_S,
        check=False,
    )
    done.check_returncode()
    return done
