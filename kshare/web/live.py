"""Tells open pages when there is something new, as server-sent events. The pages then load their live parts again."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from kshare.web.console import Console, address_of, user_of

_LOOK_S = 0.25
_QUIET_S = 15.0
"""A comment is sent so often, so that a page whose machine is gone is noticed."""
_MOST_PAGES, _MOST_OF_ONE = 200, 40
"""Altogether, and of one user at one address."""


class LivePages:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._open: Counter[tuple[str, str]] = Counter()
        """By user and address."""

    async def events(self, request: Request) -> Response:
        whose = user_of(request).name, address_of(request)
        if self._open.total() >= _MOST_PAGES or self._open[whose] >= _MOST_OF_ONE:
            return PlainTextResponse("too many pages are open\n", 503, {"Retry-After": "30"})
        return StreamingResponse(self._stream(whose, request), media_type="text/event-stream")

    async def _stream(self, whose: tuple[str, str], request: Request) -> AsyncIterator[str]:
        self._open[whose] += 1
        try:
            seen, quiet_since = self._console.watcher.view.number, anyio.current_time()
            yield "retry: 2000\n\n"
            while not self._console.is_closing.is_set():
                number, now = self._console.watcher.view.number, anyio.current_time()
                if number != seen:
                    if not await self._is_let_in(request):
                        break
                    seen, quiet_since = number, now
                    yield f"data: {number}\n\n"
                elif now - quiet_since > _QUIET_S:
                    quiet_since = now
                    yield ":\n\n"
                await anyio.sleep(_LOOK_S)
        finally:
            self._open[whose] -= 1
            if not self._open[whose]:
                del self._open[whose]

    async def _is_let_in(self, request: Request) -> bool:
        """Who was removed meanwhile isn't."""
        try:
            await self._console.access.user_of(request.headers, address_of(request))
        except HTTPException:
            return False
        return True
