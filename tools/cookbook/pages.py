"""The documents that show scenarios: a comment names the scenario, and the block after it has the output.

Decides what is shown: the whole output in the guide to the command; in the cookbook, no table of APIs, and only the
first ones of many empty fetches.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.cookbook.stage import output_of

_DOCS = Path(__file__).parents[2] / "docs"
DOCUMENTS = (_DOCS / "cli.md", _DOCS / "cookbook.md")

_PLACE = re.compile(r"(<!-- kshare trace: (\w+)( whole)? -->\n```text\n)(.*?)^```$", re.MULTILINE | re.DOTALL)
_APIS = re.compile(r"^API .*?\n\n", re.MULTILINE | re.DOTALL)
_NOTHING = re.compile(
    r"((?:^\S+ \S+ → .*  nothing  \S+ ms\n){2})(?:^\S+ \S+ → .*  nothing  \S+ ms\n){2,}", re.MULTILINE
)
_COMMAND = "$ kshare trace --bootstrap-server localhost:9092 --group shippers"


def shown(text: str) -> dict[str, str]:
    """Scenario → its block in the document."""
    return {match[2]: match[4] for match in _PLACE.finditer(text)}


def refreshed(text: str) -> str:
    return _PLACE.sub(_block, text)


def _block(match: re.Match[str]) -> str:
    output = output_of(match[2], "--group", "shippers")
    if not match[3]:
        output = _NOTHING.sub(r"\1…\n", _APIS.sub("", output))
    return f"{match[1]}{_COMMAND}\n{output}\n```"
