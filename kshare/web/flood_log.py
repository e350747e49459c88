"""Logs in sums what clients can cause as often as they like: requests that aren't HTTP, and connections in excess."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from kshare.summary_log import SummaryLog

log = logging.getLogger("kshare.web")

LoopHandler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]
_NOT_ACCEPTED = "socket.accept() out of system resource"
"""With these words, asyncio tells of each attempt."""


@contextmanager
def flood_log() -> Iterator[LoopHandler]:
    """What uvicorn warns of is logged in sums meanwhile. Yields what handles exceptions of its event loop."""
    uvicorn = logging.getLogger("uvicorn.error")
    with closing(SummaryLog(log)) as summary:

        def is_passed_on(record: logging.LogRecord) -> bool:
            if record.levelno != logging.WARNING:
                return True
            summary.event(logging.WARNING, record.getMessage())
            return False

        def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            if context["message"] == _NOT_ACCEPTED:
                summary.event(logging.WARNING, "a connection can't be accepted", context.get("exception", ""))
            else:
                loop.default_exception_handler(context)

        uvicorn.addFilter(is_passed_on)
        try:
            yield handle
        finally:
            uvicorn.removeFilter(is_passed_on)
