"""What setup.py does with modules that can and that can't be compiled: a small package in place of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.lengthy

ROOT = Path(__file__).parents[1]
GOOD = "cpdef int two()"
BAD = 'cdef extern from "nowhere.h":\n    int three()\n\ncpdef int two()'
REQUIRED = {"KSHARE_REQUIRE_COMPILED": "1"}


def build(
    folder: Path, declarations: str, **variables: str
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Builds two modules in place, the second with these declarations. Also returns what was compiled."""
    package = folder / "kshare"
    package.mkdir()
    (package / "__init__.py").touch()
    for name, said in (("first", GOOD), ("second", declarations)):
        (package / f"{name}.py").write_text("def two():\n    return 2\n")
        (package / f"{name}.pxd").write_text(said)
    (folder / "setup.py").write_bytes((ROOT / "setup.py").read_bytes())
    done = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=folder,
        env={**os.environ, "CFLAGS": "-O0", **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done, sorted(path.name.partition(".")[0] for path in package.glob("*.so"))


def test_all_modules_are_compiled_where_there_is_a_compiler(tmp_path: Path) -> None:
    done, compiled = build(tmp_path, GOOD, **REQUIRED)
    assert (done.returncode, compiled) == (0, ["first", "second"]), done.stderr


def test_nothing_is_compiled_and_that_is_said_if_one_module_cannot_be(tmp_path: Path) -> None:
    done, compiled = build(tmp_path, BAD)
    assert (done.returncode, compiled) == (0, []), done.stderr
    assert "nothing is compiled, so records are read far slower" in done.stdout + done.stderr


def test_the_installation_fails_if_compiled_modules_are_required(tmp_path: Path) -> None:
    done, _ = build(tmp_path, GOOD, **REQUIRED, CC="/bin/false")
    assert done.returncode == 1
    assert "error: KSHARE_REQUIRE_COMPILED is set, and kshare can't be compiled: " in done.stderr
