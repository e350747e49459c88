"""Older PySpark releases, in the user's cache: `python -m tools.older_spark` installs those that are tested.

Before PySpark 4.2, streams of Python sources are driven differently, so tests use real older releases. The folder comes
first in PYTHONPATH; the rest of the environment stays the same.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools import cache, packages

TESTED_RELEASES = ("4.0.5", "4.1.4")


def installed(release: str) -> Path:
    """The folder with this PySpark release. Installs it if necessary."""
    return cache.built(
        cache.folder() / "pyspark" / release, lambda folder: _install(f"pyspark=={release}", folder)
    )


def _install(wanted: str, folder: Path) -> None:
    print(f"kshare: installing {wanted}", file=sys.stderr, flush=True)
    if not packages.install(Path(sys.executable), "--target", folder, wanted):
        raise OSError("see above")


def main() -> int:
    with ThreadPoolExecutor() as pool:
        installing = {release: pool.submit(installed, release) for release in TESTED_RELEASES}
    for release, ended in installing.items():
        problem = ended.exception()
        if problem is not None:
            print(f"PySpark {release} can't be installed: {problem}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
