"""Where archives of classes are. A broker starts with 3 s of processor time instead of 5 with one, a tool with 0.8."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

from tools import cache
from tools.kafka.java import find_java


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
