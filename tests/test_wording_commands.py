"""Suggested commands: a shell gets the name as it is, and a terminal into which they are pasted nothing to obey."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import kshare
from kshare.errors import KshareError
from kshare.log_text import escaped
from kshare.wording import shell_line, shell_word

NAMES = [
    "plain",
    "two words",
    "it's",
    "a\\b",
    "payments\x03\ntouch x",
    "\x1b]0;x\x07'",
    "\x9b1m",
    "\u202e",
    "ü\n",
]


@pytest.mark.parametrize("name", NAMES)
def test_the_shell_gets_the_name(name: str) -> None:
    command = shell_line(["printf", "%s", name])
    assert escaped(command) == command
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert done.stdout.decode() == name


def test_plain_words_stay_plain() -> None:
    assert (shell_word("orders"), shell_word("a b")) == ("orders", "'a b'")
    assert shell_word("a\nb'\x1b") == "$'a\\x0ab\\'\\x1b'"


def test_all_commands_are_quoted_here() -> None:
    """`shlex.quote` leaves control characters as they are."""
    root = Path(kshare.__file__).parent
    found = [
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"shlex\.(quote|join)", path.read_text(encoding="utf-8"))
    ]
    assert sorted(found) == ["installation.py", "wording.py"], "use shell_word and shell_line"


def test_errors_are_one_line() -> None:
    assert str(KshareError("group a\nkshare: done \x1b[2J")) == "group a\\nkshare: done \\x1b[2J"
