"""Tells open pages when there is something new, as server-sent events. The pages then load their live parts again."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from kshare.web.console import Console

_LOOK_S = 0.25
_QUIET_S = 15.0
"""A comment is sent so often, so that a page whose machine is gone is noticed."""
_MOST_PAGES = 200


class LivePages:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._open = 0

    async def events(self, request: Request) -> Response:
        if self._open >= _MOST_PAGES:
            return PlainTextResponse("too many pages are open\n", 503, {"Retry-After": "30"})
        return StreamingResponse(self._stream(), media_type="text/event-stream")

    async def _stream(self) -> AsyncIterator[str]:
        self._open += 1
        try:
            seen, quiet_since = self._console.watcher.view.number, anyio.current_time()
            yield "retry: 2000\n\n"
            while not self._console.is_closing.is_set():
                number, now = self._console.watcher.view.number, anyio.current_time()
                if number != seen:
                    seen, quiet_since = number, now
                    yield f"data: {number}\n\n"
                elif now - quiet_since > _QUIET_S:
                    quiet_since = now
                    yield ":\n\n"
                await anyio.sleep(_LOOK_S)
        finally:
            self._open -= 1
