"""A pytest plugin that replaces kshare's messages and codes in this process by those of the grown schemas.

They are generated when the process starts. With KSHARE_GROWN_COMPILED=1, the largest of the messages that are compiled
in kshare is compiled here too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from tests.growth.schemas import GROWN, grown_codes, grown_schema
from tools.kgen import codec, codes, layout
from tools.kgen.model import read_document

ROOT = Path(__file__).parents[2]
COMPILED = "ShareFetchResponse"
TYPES = "kshare.protocol.acknowledge_types"
_MESSAGES, _TABLES = "kshare.protocol.messages", "kshare.dissect.fields"


class GrownMessages(MetaPathFinder):
    """Finds the generated modules in a separate folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, Path] = {}
        hot = []
        for name in GROWN:
            message = read_document(grown_schema(name), f"{name}.json")
            module = f"{_MESSAGES}.{codec.module_name(name)}"
            self._write(module, ".py", codec.emit_message(message))
            self._write(f"{_TABLES}.{layout.module_name(name)}", ".py", layout.emit_message(message))
            if name == COMPILED and os.environ.get("KSHARE_GROWN_COMPILED"):
                self._write(module, ".pxd", codec.emit_declarations(message))
                hot.append(module)
        codes_document = grown_codes()
        self._write(TYPES, ".py", codes.emit_types(codes_document["acknowledgeTypes"], "error_codes.json"))
        self._write(f"{_TABLES}.codes", ".py", layout.emit_codes(codes_document))
        if hot:
            self._compile(hot)

    def _write(self, module: str, suffix: str, text: str) -> None:
        path = self._folder.joinpath(*module.split(".")).with_suffix(suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if suffix == ".py":
            self._files[module] = path

    def _compile(self, modules: list[str]) -> None:
        for module in modules:  # cython needs the packages that a module is in
            for folder in [*self._files[module].relative_to(self._folder).parents][:-1]:
                (self._folder / folder / "__init__.py").touch()
        cc = (sysconfig.get_config_var("CC") or "cc").split()[0]
        include = f"-I{sysconfig.get_path('include')}"
        for module in modules:
            source = self._files[module].relative_to(self._folder)
            library = source.with_suffix(EXTENSION_SUFFIXES[0])
            self._run(sys.executable, "-m", "cython", "-3", "-I", str(ROOT), str(source))
            self._run(
                cc,
                "-shared",
                "-fPIC",
                "-O0",
                "-w",
                include,
                str(source.with_suffix(".c")),
                "-o",
                str(library),
            )
            self._files[module] = self._folder / library

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stdout[-2000:] + done.stderr[-2000:])

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = self._files.get(fullname)
        return spec_from_file_location(fullname, file) if file else None


_folder = Path(tempfile.mkdtemp(prefix="grown-"))
sys.meta_path.insert(0, GrownMessages(_folder))


def pytest_unconfigure() -> None:
    shutil.rmtree(_folder)


def pytest_terminal_summary(terminalreporter: object) -> None:
    from kshare.protocol.messages import share_fetch_response

    is_compiled = not share_fetch_response.__file__.endswith(".py")
    assert share_fetch_response.__file__.startswith(str(_folder))
    how = "compiled" if is_compiled else "from their sources"
    terminalreporter.write_line(f"grown messages, {how}")  # type: ignore[attr-defined]
