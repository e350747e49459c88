"""Asks Kafka's own classes what bytes a message has and what bytes mean; `tests/java/Judge.java` is the other end."""

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

from tools.kafka.compiler import compile_java
from tools.kafka.jars import NEWEST_RELEASE, class_path
from tools.kafka.java import find_java

_SOURCE = Path(__file__).resolve().parent.parent / "java" / "Judge.java"
_DEADLINE_S = 120.0


class JudgeError(Exception):
    """Java refuses: it can't write this JSON, or can't read these bytes. Holds its exception's text."""


class Case(NamedTuple):
    """A message in a version, as JSON or as bytes."""

    name: str
    version: int
    value: Any


@contextmanager
def open_judge() -> Iterator[Judge]:
    """A Java process that answers until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="kshare-judge-") as classes:
        jars = class_path(NEWEST_RELEASE)
        compile_java(_SOURCE, NEWEST_RELEASE, Path(classes))
        command = [str(find_java()), "-Xmx512m", "-XX:+UseSerialGC", "-cp", f"{classes}:{jars}", "Judge"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        ) as process:
            judge = Judge(process)
            try:
                yield judge
            finally:
                judge.close()


class Judge:
    """One question or many at a time; from one thread only."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def encode(self, name: str, version: int, value: Any) -> bytes:
        """The bytes that Kafka gives a message it got as JSON."""
        return self.encode_all([Case(name, version, value)])[0]

    def decode(self, name: str, version: int, data: bytes) -> Any:
        """The JSON that Kafka gives a message it got as bytes."""
        return self.decode_all([Case(name, version, data)])[0]

    def encode_all(self, cases: Sequence[Case]) -> list[bytes]:
        """JSON to bytes, many at once; JudgeError at the first that Java refuses."""
        lines = [f"encode\t{name}\t{version}\t{json.dumps(value)}\n" for name, version, value in cases]
        return [base64.b64decode(answer) for answer in self._ask(lines)]

    def decode_all(self, cases: Sequence[Case]) -> list[Any]:
        """Bytes to JSON, many at once; JudgeError at the first that Java refuses."""
        lines = [
            f"decode\t{name}\t{version}\t{base64.b64encode(data).decode()}\n" for name, version, data in cases
        ]
        return [json.loads(answer) for answer in self._ask(lines)]

    def close(self) -> None:
        """The end of its input ends it; what doesn't end is killed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _ask(self, lines: Sequence[str]) -> list[str]:
        answers = list(self._exchange(lines))
        for line, (verdict, text) in zip(lines, answers, strict=True):
            if verdict != "ok":
                raise JudgeError(f"{text} (asked: {line[:500].rstrip()})")
        return [text for _, text in answers]

    def _exchange(self, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # A thread writes while this one reads: else both pipes fill and nobody moves.
        writer = threading.Thread(target=self._write, args=("".join(lines),))
        watchdog = threading.Timer(_DEADLINE_S, self._process.kill)
        writer.start()
        watchdog.start()
        try:
            for _ in lines:
                answer = self._process.stdout.readline()
                if not answer.endswith("\n"):
                    raise JudgeError("the judge went away before it answered")
                verdict, _, text = answer.rstrip("\n").partition("\t")
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
            return  # The reader sees the end too, and says so.
