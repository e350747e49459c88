"""Every command is shown in docs/screens, within its window, and each screen can be drawn again."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from kshare.cli.app import app
from tools.screens.__main__ import SIZES, draw, path, title
from tools.screens.scenes import SCENES, Scene
from tools.screens.world import World, world

_DRAWN = re.compile(r"^```text\n\$ kshare (.*?)\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_NOT_FOR_LOOKING = {"broker"}
"""A server: it prints only the address where it listens."""


@pytest.fixture(scope="module")
def there() -> Iterator[World]:
    with world() as made:
        yield made


def width(text: str) -> int:
    """Of the longest line. Commands to be copied aren't wrapped, so they don't count."""
    return max(len(line) for line in text.splitlines() if not line.lstrip().startswith("kshare "))


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_every_command_is_in_the_docs(columns: int, lines: int) -> None:
    drawn = dict(_DRAWN.findall(path(columns, lines).read_text(encoding="utf-8")))
    commands = {command.name for command in app.registered_commands} | {
        group.name for group in app.registered_groups
    }
    assert commands - _NOT_FOR_LOOKING <= {command.split()[0] for command in drawn}
    assert len(drawn) == len(SCENES)
    for command, text in drawn.items():
        assert width(text) <= columns, command


@pytest.mark.lengthy
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: " ".join(scene.words)[:40])
def test_each_screen_can_be_drawn(scene: Scene, there: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times and ids may differ. It must fit the window, without traceback or escape sequences."""
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", there.bootstrap)
    columns, lines = SIZES[0]
    text = draw(scene, there, columns, lines)
    assert title(scene, there)
    assert text
    assert "Traceback" not in text
    assert "\x1b" not in text
    assert width(text) <= columns
