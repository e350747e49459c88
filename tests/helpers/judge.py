"""Encodes and decodes messages with Kafka's own classes, through `tests/java/Judge.java`."""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tools.kafka.jars import NEWEST_RELEASE, class_path
from tools.kafka.java import SHORT_LIVED, find_java
from tools.kafka.tool import compile_java

_SOURCE = Path(__file__).resolve().parent.parent / "java" / "Judge.java"
_DEADLINE_S = 120.0


class JudgeError(Exception):
    """Java can't write this JSON, or can't read these bytes. Contains the text of Java's exception."""


class Case(NamedTuple):
    """A message in one version, as JSON or as bytes."""

    name: str
    version: int
    value: Any


@contextmanager
def open_judge() -> Iterator[Judge]:
    """Start the Java process. It runs until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="kshare-judge-") as classes:
        jars = class_path(NEWEST_RELEASE)
        compile_java(_SOURCE, NEWEST_RELEASE, Path(classes))
        command = [str(find_java()), "-Xmx512m", *SHORT_LIVED, "-cp", f"{classes}:{jars}", "Judge"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        ) as process:
            judge = Judge(process)
            try:
                yield judge
            finally:
                judge.close()


class Judge:
    """Handles one message or many at a time. Must be used from one thread only."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def encode(self, name: str, version: int, value: Any) -> bytes:
        """Convert a message from JSON to bytes."""
        return self.encode_all([Case(name, version, value)])[0]

    def decode(self, name: str, version: int, data: bytes) -> Any:
        """Convert a message from bytes to JSON."""
        return self.decode_all([Case(name, version, data)])[0]

    def encode_all(self, cases: Sequence[Case]) -> list[bytes]:
        """Convert many messages from JSON to bytes. Raises JudgeError for the first that Java can't write."""
        lines = [f"encode\t{name}\t{version}\t{json.dumps(value)}\n" for name, version, value in cases]
        return [base64.b64decode(response) for response in self._ask(lines)]

    def decode_all(self, cases: Sequence[Case]) -> list[Any]:
        """Convert many messages from bytes to JSON. Raises JudgeError for the first that Java can't read."""
        lines = [
            f"decode\t{name}\t{version}\t{base64.b64encode(data).decode()}\n" for name, version, data in cases
        ]
        return [json.loads(response) for response in self._ask(lines)]

    def close(self) -> None:
        """Close its input, which ends it. Kill it if it doesn't end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _ask(self, lines: Sequence[str]) -> list[str]:
        responses = list(self._exchange(lines))
        for line, (verdict, text) in zip(lines, responses, strict=True):
            if verdict != "ok":
                raise JudgeError(f"{text} (asked: {line[:500].rstrip()})")
        return [text for _, text in responses]

    def _exchange(self, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # Another thread writes while this one reads. Otherwise, both pipes fill up, and both processes block.
        writer = threading.Thread(target=self._write, args=("".join(lines),))
        watchdog = threading.Timer(_DEADLINE_S, self._process.kill)
        writer.start()
        watchdog.start()
        try:
            for _ in lines:
                response = self._process.stdout.readline()
                if not response.endswith("\n"):
                    raise JudgeError("the judge ended before it answered")
                verdict, _, text = response.rstrip("\n").partition("\t")
                yield verdict, text
        finally:
            watchdog.cancel()
            writer.join()

    def _write(self, text: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        except BrokenPipeError:
            return  # The reader reports it.
