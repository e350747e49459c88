"""Runs `tests/java/PlainClient.java`: Java's producer, consumer and admin client, against any broker."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.kafka.jars import NEWEST_RELEASE, class_path
from tools.kafka.java import SHORT_LIVED, find_java
from tools.kafka.tool import compile_java

_SOURCE = Path(__file__).parents[1] / "java" / "PlainClient.java"
_DEADLINE_S = 120.0


class JavaClient:
    def __init__(self, classes: Path) -> None:
        self._classes = classes

    def run(self, what: str, bootstrap: str, *arguments: str) -> list[str]:
        """The lines that it has printed."""
        path = f"{self._classes}:{class_path(NEWEST_RELEASE)}"
        done = subprocess.run(
            [str(find_java()), *SHORT_LIVED, "-cp", path, "PlainClient", what, bootstrap, *arguments],
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()


@contextmanager
def java_client() -> Iterator[JavaClient]:
    with tempfile.TemporaryDirectory(prefix="kshare-java-client-") as classes:
        compile_java(_SOURCE, NEWEST_RELEASE, Path(classes))
        yield JavaClient(Path(classes))
