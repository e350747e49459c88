"""The commands that start contenders: our Python, Java and Go programs. The latter two are compiled into the cache.

All take `key=value` arguments, print lines, and end when their standard input is closed.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tools import cache
from tools.kafka.jars import TOOLS, class_path
from tools.kafka.java import find_java
from tools.kafka.tool import compile_java

Command = list[str | Path]

JAVA_RELEASE = "4.3.1"
_HERE = Path(__file__).parent
_JAVA_MEMORY = "-Xmx512m"
_GO_DEADLINE_S = 300.0


def python(name: str, **arguments: object) -> Command:
    """The command for a function of a module of tools/benches/contenders, such as `by_kshare.read`."""
    module, _, function = name.rpartition(".")
    return [sys.executable, "-m", f"tools.benches.contenders.{module}", function, *_words(arguments)]


def java(name: str, **arguments: object) -> Command:
    """The command for a class of tools/benches/java, with Kafka's own client."""
    source = _HERE / "java" / f"{name}.java"
    classes = built(
        source.read_bytes(), f"java-{name}", lambda folder: compile_java(source, JAVA_RELEASE, folder)
    )
    path = f"{classes}:{class_path(JAVA_RELEASE)}"
    return [find_java(), _JAVA_MEMORY, "-cp", path, name, *_words(arguments)]


def kafka_tool(name: str, *arguments: str) -> Command:
    """The command for one of Kafka's command-line tools."""
    return [find_java(), "-cp", class_path(TOOLS), f"org.apache.kafka.tools.{name}", *arguments]


def go(**arguments: object) -> Command:
    """The command for our program with franz-go. Call it only if `has_go`."""
    source = _HERE / "go"
    content = b"".join((source / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    return [built(content, "go", lambda folder: _compile_go(source, folder)) / "reader", *_words(arguments)]


def has_go() -> bool:
    return shutil.which("go") is not None


def _words(arguments: dict[str, object]) -> list[str]:
    return [f"{name}={value}" for name, value in arguments.items()]


def built(content: bytes, name: str, build: Callable[[Path], None]) -> Path:
    """The folder with a build of this content."""
    version = hashlib.sha256(content).hexdigest()[:16]
    return cache.built(cache.folder() / "benches" / f"{name}-{version}", build)


def _compile_go(source: Path, folder: Path) -> None:
    done = subprocess.run(
        ["go", "build", "-o", folder / "reader", "."],
        cwd=source,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_GO_DEADLINE_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the Go program doesn't compile:\n{done.stderr}")
