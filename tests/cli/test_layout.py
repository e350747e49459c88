"""Each command has a directory: `kshare top` is in `kshare/cli/top`, and its tests are in `tests/cli/top`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

import kshare.cli
from kshare.cli.app import app
from tests.cli.running import ROOT

CLI = Path(kshare.cli.__file__).parent
SHARED = {"cluster", "terminal"}
COMMANDS = {command.name for command in app.registered_commands} | {
    group.name for group in app.registered_groups
}


def folders(parent: Path) -> set[str]:
    return {path.parent.name for path in parent.glob("*/__init__.py")}


def test_each_command_has_a_directory() -> None:
    assert folders(CLI) == COMMANDS | SHARED
    assert {path.parent.name for path in CLI.glob("*/options.py")} == COMMANDS | {"cluster"}
    assert {path.name for path in CLI.glob("*.py")} == {"__init__.py", "__main__.py", "app.py"}


def options_of(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    for name, inner in getattr(command, "commands", {}).items():
        yield from options_of(inner, (*path, name))
    for param in command.params:
        yield " ".join(path), param.opts


def test_topics_and_groups_have_the_same_letters_in_all_commands() -> None:
    letters = {"--topic": "-t", "--group": "-g", "--bootstrap-server": "-b"}
    found = [
        (command, names) for command, names in options_of(get_command(app)) if letters.keys() & set(names)
    ]
    assert len(found) > len(COMMANDS)
    for command, names in found:
        assert {letters[name] for name in names if name in letters} <= set(names), command


def test_tests_of_each_command_have_a_directory() -> None:
    assert folders(ROOT / "tests" / "cli") == COMMANDS | SHARED
