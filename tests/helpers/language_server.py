"""Pyright's language server, over stdin and stdout: what an editor shows for a Python file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_DEADLINE_S = 60


class LanguageServer:
    """A server for files that import from `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root.as_uri()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pyright.langserver", "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._asked = 0

    def __enter__(self) -> Self:
        formats = {"textDocument": {"hover": {"contentFormat": ["plaintext"]}}}
        folder = {"uri": self._root, "name": "root"}
        self._ask(
            "initialize",
            {"processId": None, "rootUri": self._root, "workspaceFolders": [folder], "capabilities": formats},
        )
        self._send({"method": "initialized", "params": {}})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ask("shutdown", {})
        self._send({"method": "exit", "params": {}})
        self._process.communicate(timeout=_DEADLINE_S)

    def open(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        document = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": text}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})

    def hover(self, path: Path, line: int, column: int) -> str:
        """The text of the hover at this position. Line and column are counted from 0."""
        where = {"textDocument": {"uri": path.as_uri()}, "position": {"line": line, "character": column}}
        shown = self._ask("textDocument/hover", where)
        return "" if shown is None else str(shown["contents"]["value"])

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        self._asked += 1
        self._send({"id": self._asked, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" not in message and message.get("id") == self._asked:
                return message["result"]
            if "method" in message and "id" in message:  # a request of the server, for example for settings
                items = message.get("params", {}).get("items")
                self._send({"id": message["id"], "result": None if items is None else [{}] * len(items)})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length = 0
        while line := self._process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        message: dict[str, Any] = json.loads(self._process.stdout.read(length))
        return message
