"""docs/benchmarks.md: a section a member, replaced when that member is measured, the others left as they are."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from pathlib import Path

PAGE = "benchmarks.md"
_HEAD = """# Benchmarks

Written by `tools/bench --write docs`; each section says what was run. Contenders take turns, round by round; a ratio is
taken within a round, and above 1 means that kshare is better. Figures are the least, the median and the greatest of
the rounds. Where others share the machine, the ratios are worth more than the figures.
"""
_SECTION = re.compile(r"<!-- (\w+) -->\n(.*?)<!-- end -->\n", re.DOTALL)


def write(folder: Path, command: str, texts: Mapping[str, str]) -> Path:
    """Put these members' texts into the page, which is made when it isn't there."""
    page = folder / PAGE
    before = page.read_text(encoding="utf-8") if page.exists() else ""
    page.write_text(merged(before, {name: section(command, text) for name, text in texts.items()}), "utf-8")
    return page


def section(command: str, text: str) -> str:
    machine = f"Python {platform.python_version()}, {platform.machine()}, {platform.system()}"
    return f"`{command}` on {machine}:\n\n```text\n{text.rstrip()}\n```\n"


def merged(before: str, sections: Mapping[str, str]) -> str:
    """The page with these sections in place of those of the same names, or behind the others."""
    every = {**dict(_SECTION.findall(before)), **sections}
    return _HEAD + "".join(f"\n<!-- {name} -->\n{text}<!-- end -->\n" for name, text in every.items())
