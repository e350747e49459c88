"""Each command has a directory: `kshare top` is in `kshare/cli/top`, and its tests are in `tests/cli/top`."""

from __future__ import annotations

from pathlib import Path

import kshare.cli
from kshare.cli.app import app
from tests.cli.running import ROOT

CLI = Path(kshare.cli.__file__).parent
SHARED = {"cluster", "terminal"}
COMMANDS = {one.name for one in app.registered_commands} | {one.name for one in app.registered_groups}


def folders(parent: Path) -> set[str]:
    return {one.parent.name for one in parent.glob("*/__init__.py")}


def test_each_command_has_a_directory() -> None:
    assert folders(CLI) == COMMANDS | SHARED
    assert {one.parent.name for one in CLI.glob("*/options.py")} == COMMANDS | {"cluster"}
    assert {one.name for one in CLI.glob("*.py")} == {"__init__.py", "__main__.py", "app.py"}


def test_tests_of_each_command_have_a_directory() -> None:
    assert folders(ROOT / "tests" / "cli") == COMMANDS | {"terminal"}
