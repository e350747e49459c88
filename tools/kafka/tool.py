"""Runs Kafka's command-line tools from jars, against any cluster, and compiles small Java programs against its jars."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.kafka.jars import COMPILER, TOOLS, class_path, install
from tools.kafka.java import SHORT_LIVED, find_java, loading, run_java

TOOL_DEADLINE_S = 120.0


def run_tool(
    main_class: str, *arguments: str, given: str = "", jars: str = TOOLS, options: Sequence[str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a tool from these jars, with `given` as its standard input. `options` are for its JVM.

    Raises CalledProcessError if it fails, and TimeoutExpired if it hangs.
    """
    for_jvm = loading(jars) if options is None else options
    done = subprocess.run(
        [find_java(), *SHORT_LIVED, *for_jvm, "-cp", class_path(jars), main_class, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=TOOL_DEADLINE_S,
        check=False,
    )
    done.check_returncode()
    return done


def compile_java(source: Path, release: str, classes: Path) -> None:
    """Compile with a compiler from the registries, because the Java runtime in the wheel has none."""
    compiler = next(install(COMPILER).glob("ecj-*.jar"))
    # Unlike `java`, it doesn't expand a `*` in a class path.
    jars = ":".join(str(jar) for jar in sorted(install(release).glob("*.jar")))
    run_java(
        [
            *("-jar", compiler, "-17", "-proc:none", "-nowarn"),
            *("-cp", jars, "-d", classes, source),
        ],
        TOOL_DEADLINE_S,
        lambda printed: RuntimeError(f"{source.name} doesn't compile:\n{printed}"),
    )
