"""Compiles small Java programs against Kafka's jars."""

from __future__ import annotations

from pathlib import Path

from tools.kafka.jars import COMPILER, install
from tools.kafka.java import run_java

_DEADLINE_S = 120.0


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
        _DEADLINE_S,
        lambda printed: RuntimeError(f"{source.name} doesn't compile:\n{printed}"),
    )
