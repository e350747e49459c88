"""Decides which jars a release consists of, and installs them atomically in the user's cache."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tools import cache
from tools.kafka.ivy import Module, ResolutionError, Wanted, fetch

TESTED_RELEASES = ("4.1.2", "4.3.1", "4.4.0")
RELEASES = ("4.1.2", "4.2.1", "4.3.1", "4.4.0")
NEWEST_RELEASE = RELEASES[-1]

# One set of command-line tools for all releases, because they aren't published for each release.
TOOLS = "tools-4.3.1"
# Not every Java runtime includes a compiler.
COMPILER = "compiler-3.42.0"
# The newest release that is published. Its token provider isn't, but the one of 4.0.0 works.
SPARK_SOURCE_RELEASE = "4.2.0"
SPARK_SOURCE = f"spark-sql-kafka-{SPARK_SOURCE_RELEASE}"

# The newest available Delta Lake; it is for Spark 4.2.
DELTA = "delta-spark-4.4.0"


def _kafka(name: str, release: str) -> Module:
    return Module("org.apache.kafka", name, release)


# Kafka leaves the choice of a logger to its packagers. Without one, a broker's log stays empty.
_LOGGER = Module("org.slf4j", "slf4j-simple", "1.7.36")


def _spark(name: str, release: str) -> Module:
    return Module("org.apache.spark", f"{name}_2.13", release)


_SETS = {
    **{release: Wanted((_kafka("kafka_2.13", release), _LOGGER)) for release in RELEASES},
    # kafka-tools-api isn't published for 4.4.0; the broker runs with the previous one.
    "4.4.0": Wanted((_kafka("kafka_2.13", "4.4.0"), _LOGGER), (_kafka("kafka-tools-api", "4.3.1"),)),
    TOOLS: Wanted((_kafka("kafka-tools", "4.3.1"), _LOGGER)),
    SPARK_SOURCE: Wanted(
        (_spark("spark-sql-kafka-0-10", SPARK_SOURCE_RELEASE),),
        (_spark("spark-token-provider-kafka-0-10", "4.0.0"),),
    ),
    DELTA: Wanted((Module("io.delta", "delta-spark_4.2_2.13", "4.4.0"),)),
    COMPILER: Wanted((Module("org.eclipse.jdt", "ecj", "3.42.0"),)),
}


def say_line(line: str) -> None:
    """Print a line of progress immediately, without mixing it with lines of other threads."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def install(name: str, say: Callable[[str], None] = say_line) -> Path:
    """The folder with the jars of a release (or of TOOLS, COMPILER). Fetches them if necessary.

    If two processes call this at the same time, one fetches the jars and the other waits for them.
    """
    if name not in _SETS:
        raise ValueError(f"There is no set of jars named {name!r}; choose from {', '.join(_SETS)}.")
    home = cache.folder() / "kafka" / name
    if home.is_dir():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    with _locked(home.with_name(f".{name}.lock")):
        return cache.built(home, lambda folder: _fetch(name, folder, say))


def class_path(name: str) -> str:
    """A Java class path of every jar of a set."""
    return f"{install(name)}/*"


def jar(release: str, artifact: str) -> Path:
    """One jar of a release, such as kafka-clients."""
    return install(release) / f"{artifact}-{release}.jar"


def _fetch(name: str, folder: Path, say: Callable[[str], None]) -> None:
    def progress(done: int) -> None:
        if done % 10 == 0:
            say(f"kafka jars {name}: {done} fetched")

    say(f"kafka jars {name}: fetching into {folder.parent / name} (once, about a minute)")
    with TemporaryDirectory(prefix=".ivy.", dir=folder.parent) as scratch:
        try:
            fetch(_SETS[name], folder, Path(scratch), progress)
        except ResolutionError:
            # There are hundreds of small downloads, and a single failure shouldn't fail the run.
            say(f"kafka jars {name}: trying once more")
            fetch(_SETS[name], folder, Path(scratch), progress)
    say(f"kafka jars {name}: {len(list(folder.glob('*.jar')))} in place")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
