"""The commands in the documentation of produce, consume and state print what it shows, with an embedded broker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kshare.testing import Broker
from tests.cli.running import DEADLINE, ROOT
from tests.helpers.documents import BLOCK

pytestmark = pytest.mark.lengthy

_SECTIONS = ("produce", "consume", "state")
_CHANGING = (
    (re.compile(r'"timestamp": \d+'), '"timestamp": 0'),
    (re.compile(r"\d{4}-\d\d-\d\d \(UTC\)"), "day"),
    (re.compile(r"\d\d:\d\d:\d\d\.\d{3}"), "time"),
)


def test_commands_print_what_the_documentation_shows(tmp_path: Path) -> None:
    program = tmp_path / "kshare"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -W error -m kshare.cli "$@"\n')
    program.chmod(0o755)
    steps = list(commands())
    assert len(steps) > 8
    with Broker() as broker:
        environment = {
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "KSHARE_BOOTSTRAP_SERVER": broker.bootstrap,
        }
        for command, said in steps:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=DEADLINE,
                check=False,
            )
            assert steady(done.stdout) == steady(said), command


def commands() -> list[tuple[str, str]]:
    """Each command, and the output shown below it."""
    guide = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    found = []
    for section in re.split(r"^## ", guide, flags=re.MULTILINE):
        if section.startswith(tuple(f"`kshare {name}`" for name in _SECTIONS)):
            for block in BLOCK.finditer(section):
                for step in re.split(r"^\$ ", block[2], flags=re.MULTILINE)[1:]:
                    command, _, said = step.partition("\n")
                    found.append((command, said))
    return found


def steady(text: str) -> str:
    for pattern, instead in _CHANGING:
        text = pattern.sub(instead, text)
    return text
