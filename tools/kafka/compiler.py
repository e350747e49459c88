"""Compiles small Java programs against Kafka's jars."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tools.kafka.jars import COMPILER, install
from tools.kafka.java import find_java

_DEADLINE_S = 120.0


def compile_java(source: Path, release: str, classes: Path) -> None:
    """Compile with a compiler from the registries, because the Java runtime in the wheel has none."""
    compiler = next(install(COMPILER).glob("ecj-*.jar"))
    # Unlike `java`, it doesn't expand a `*` in a class path.
    jars = ":".join(str(jar) for jar in sorted(install(release).glob("*.jar")))
    done = subprocess.run(
        [
            *(str(find_java()), "-jar", str(compiler), "-17", "-proc:none", "-nowarn"),
            *("-cp", jars, "-d", str(classes), str(source)),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{source.name} doesn't compile:\n{done.stdout}")
