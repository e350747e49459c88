"""The process that decodes records with schemas. It is started when it is needed, and again after it has ended.

Decoding can't be stopped in a thread, and can crash: what a record's bytes stand for is its writer's choice.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

import anyio
from anyio import to_thread

_START_S = 20.0
_BYTES_PER_SIGN = 12
"""In JSON, at most."""
_ROOM = 64 << 10
_NOT_STARTED = "the process that decodes can't be started"
_BUSY = "records of others took too long: try again in a moment"
_STOPPED = "the console is being stopped"
_CRASHED = "the decoder crashed: its bytes nest too deeply, or expand to too much data"
CHILD = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from kshare.web.decoding_child import main
main()
"""


class DecodingFailed(Exception):
    """Why there is no response, for users."""


class DecodingProcess:
    """Decodes one record at a time. `close` it at the end."""

    def __init__(self, url: str, limit_s: float) -> None:
        self._url = url
        self._limit_s = limit_s
        self._turn = anyio.Semaphore(1)
        self._process: _Process | None = None
        self._is_closed = False

    async def decode(self, data: bytes, topic: str, part: str, limit: int, deadline: float) -> dict[str, Any]:
        """Raises DecodingFailed if it takes too long, or if the process can't be started or crashes.

        `deadline`: until when the record waits for those of others.
        """
        asked = {"data": base64.b64encode(data).decode(), "topic": topic, "part": part, "limit": limit}
        with anyio.CancelScope(deadline=deadline) as waiting:
            await self._turn.acquire()
        if waiting.cancelled_caught:
            raise DecodingFailed(_BUSY)
        try:
            await self._start()
            limit_text = f"{self._limit_s:g} seconds"
            slow = f"it took longer than {limit_text}: its bytes expand to too much data, or the registry is slow"
            return await self._ask(asked, limit, self._limit_s, slow, _CRASHED)
        finally:
            self._turn.release()

    def close(self) -> None:
        """End the process, and start none from now on. Whoever waits gets an error."""
        self._is_closed = True
        self._end()

    async def _start(self) -> None:
        if self._process is None and not self._is_closed:
            self._process = await to_thread.run_sync(_Process)
            await self._ask({"url": self._url}, 0, _START_S, _NOT_STARTED, _NOT_STARTED)

    def _end(self) -> None:
        """Without waiting for anything but the kill: a task that is cancelled twice would be torn from that."""
        process, self._process = self._process, None
        if process is not None:
            process.end()

    async def _ask(
        self, asked: dict[str, Any], limit: int, seconds: float, slow: str, ended: str
    ) -> dict[str, Any]:
        """Without a response, the process is ended, and DecodingFailed says that it was slow or has ended."""
        if self._is_closed:
            self._end()  # it may have been started meanwhile
        if self._process is None:
            raise DecodingFailed(_STOPPED)
        response, reason = None, slow
        try:
            with anyio.move_on_after(seconds):
                most = _BYTES_PER_SIGN * limit + _ROOM
                response = await to_thread.run_sync(self._process.ask, asked, most, abandon_on_cancel=True)
                reason = ended
        finally:
            if response is None:
                self._end()
        if response is None:
            raise DecodingFailed(_STOPPED if self._is_closed else reason)
        return response


class _Process:
    def __init__(self) -> None:
        self._started = subprocess.Popen(
            [sys.executable, "-c", CHILD, json.dumps([path for path in sys.path if isinstance(path, str)])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._asking = threading.Lock()

    def ask(self, question: dict[str, Any], most: int) -> dict[str, Any] | None:
        """The response, which has at most so many bytes; None if the process has ended."""
        questions, responses = self._started.stdin, self._started.stdout
        assert questions is not None, "a pipe"
        assert responses is not None, "a pipe"
        with self._asking:
            try:
                questions.write(json.dumps(question).encode() + b"\n")
                questions.flush()
                line = responses.readline(most)
            except (OSError, ValueError):
                return None
        if not line.endswith(b"\n"):
            return None
        response: dict[str, Any] = json.loads(line)
        return response

    def end(self) -> None:
        """A thread that asks gets no response then, at once."""
        self._started.kill()
        self._started.wait()
        with self._asking:  # once it doesn't use the pipes
            for pipe in (self._started.stdin, self._started.stdout):
                assert pipe is not None, "a pipe"
                with suppress(OSError):
                    pipe.close()
