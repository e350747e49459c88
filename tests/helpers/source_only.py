"""A pytest plugin that loads all of kshare from its sources in this process, as without a compiler."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

_ROOT = Path(__file__).parents[2]


class _SourcesOfKshare(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = _ROOT.joinpath(*fullname.split(".")).with_suffix(".py")
        if not fullname.startswith("kshare.") or not file.exists():
            return None
        return spec_from_file_location(fullname, file, loader=SourceFileLoader(fullname, str(file)))


sys.meta_path.insert(0, _SourcesOfKshare())


def pytest_terminal_summary(terminalreporter: object) -> None:
    from kshare.protocol.messages import share_fetch_response

    assert share_fetch_response.__file__.endswith(".py")
    terminalreporter.write_line("kshare from its sources")  # type: ignore[attr-defined]
