"""Where the archive of a release's classes is. With one, a broker starts with 3 s of processor time instead of 5."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

from tools import cache
from tools.kafka.java import find_java


def archive_of(release: str) -> Path:
    """For the Java that is used. `python -m tools.kafka install` makes it."""
    java = find_java().resolve()
    version = crc32(f"{java} {java.stat().st_mtime_ns}".encode())
    return cache.folder() / "kafka" / f"{release}-{version:08x}.jsa"


def loading(release: str) -> list[str]:
    """Options for a JVM. None if there is no archive: it then reads the classes from jars."""
    archive = archive_of(release)
    return [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []


def writing(archive: Path) -> list[str]:
    """Options for a JVM that writes an archive when it ends."""
    return [f"-XX:ArchiveClassesAtExit={archive}"]
