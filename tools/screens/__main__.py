"""`python -m tools.screens`: runs every command on terminals of two sizes, and writes what they showed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.cli.terminals import Terminal
from tools.screens.scenes import LISTEN, SCENES, Scene
from tools.screens.world import ROOT, World, world

FOLDER = ROOT / "docs" / "screens"
SIZES = ((80, 24), (200, 60))
_ABOUT = """# Every command on a terminal of {columns} by {lines}

Written by `python -m tools.screens`, which runs the commands against an embedded broker; colours are left out here.
"""


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    for columns, lines in SIZES:
        page = [_ABOUT.format(columns=columns, lines=lines)]
        with world() as environment:
            for scene in SCENES:
                command = f"kshare {title(scene, environment)}"
                print(f"{columns} by {lines}: {command}", file=sys.stderr)
                page.append(f"```text\n$ {command}\n{draw(scene, environment, columns, lines)}\n```\n")
        path(columns, lines).write_text("\n".join(page), encoding="utf-8")
    return 0


def path(columns: int, lines: int) -> Path:
    return FOLDER / f"{columns}x{lines}.md"


def title(scene: Scene, environment: World) -> str:
    """The command as users type it."""
    return " ".join(
        f"'{word}'" if set(word) & set(' {"') else word for word in _words(scene, environment, {})
    )


def draw(scene: Scene, environment: World, columns: int, lines: int) -> str:
    """What the terminal showed."""
    os.environ["KSHARE_BOOTSTRAP_SERVER"] = environment.bootstrap
    words = _words(scene, environment, environment.files)
    with Terminal(*words, columns=columns, lines=lines) as terminal:
        shown = scene.play(terminal, environment).rstrip("\n").splitlines()
        if terminal.end():
            raise RuntimeError(f"kshare {' '.join(words)}: {' '.join(shown)}")
    if scene.lines and len(shown) > scene.lines:
        shown = [*shown[: scene.lines], "…"]
    return "\n".join(line.rstrip() for line in shown)


def _words(scene: Scene, environment: World, files: Mapping[str, str]) -> list[str]:
    return [environment.listen if word == LISTEN else files.get(word, word) for word in scene.words]


if __name__ == "__main__":
    sys.exit(main())
