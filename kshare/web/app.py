"""Puts the pages together into an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from kshare.errors import KshareError
from kshare.web.console import Console, reason_of, status_of
from kshare.web.guard import Guard
from kshare.web.kept_inputs import KeptInputs
from kshare.web.live import LivePages
from kshare.web.pages import (
    captures,
    dead_letters,
    group,
    group_offsets,
    group_settings,
    overview,
    records,
    wire,
    workers,
)
from kshare.web.turns import SlowWork


def make_app(console: Console) -> Starlette:
    def failed(request: Request, error: Exception) -> Response:
        """A page for an error that has an explanation."""
        if isinstance(error, HTTPException):
            status, reason = error.status_code, error.detail
        else:
            status, reason = status_of(error), reason_of(error)
        was_typed = request.method == "POST" or status == 400
        return console.render(request, "error.jinja", status=status, reason=reason, was_typed=was_typed)

    async def health(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    kept, work = KeptInputs(), SlowWork()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with console.jobs.running(), kept.dropping():
            try:
                yield
            finally:
                console.decoder.close()

    return Starlette(
        lifespan=lifespan,
        routes=[
            *overview.routes(console),
            *group.routes(console),
            *group_settings.routes(console),
            *group_offsets.routes(console),
            *records.routes(console),
            *dead_letters.routes(console),
            *workers.routes(console),
            *wire.routes(console, kept, work),
            *captures.routes(console, kept, work),
            Route("/events", LivePages(console).events),
            Route("/health", health),
            Mount("/static", StaticFiles(packages=[("kshare.web", "static")])),
        ],
        middleware=[Middleware(Guard, access=console.access)],
        exception_handlers={HTTPException: failed, KshareError: failed, OSError: failed},
    )
