"""A small web site with a strict Content-Security-Policy, one page without faults and some with one each."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tools.kafka.listeners import HOST

POLICY = {"Content-Security-Policy": "default-src 'self'"}
STYLE = "body { color: #111; background: #fff } #bare:focus { outline: none }" + "/**/" * 5_000
SCRIPT = "document.querySelector('h1').dataset.script = 'ran'"

_HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Site</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="/icon.svg">
<link rel="stylesheet" href="/style.css"></head><body><main><h1>Site</h1>"""
_TAIL = '</main><script src="/script.js"></script></body></html>'
_ICON = '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"/>'
BODIES = {
    "/": '<p><a href="/">Home</a></p> <button type="button" id="bare">Press</button>'
    '<p><label>Name <input type="text"></label></p>',
    "/empty": "",
    "/no-alt": '<img src="/icon.svg">',
    "/injected": "<script>alert('injected')</script>",
}


@contextmanager
def site() -> Iterator[str]:
    """Serves it from a thread. Yields its URL."""
    with socket.create_server((HOST, 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(_application(), log_level="error", ws="none", lifespan="off"))
        thread = threading.Thread(target=server.run, args=([listener],), name="site")
        thread.start()
        try:
            yield f"http://{HOST}:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def _application() -> Starlette:
    async def page(request: Request) -> HTMLResponse:
        policy = {} if "lax" in request.query_params else POLICY
        return HTMLResponse(_HEAD + BODIES[request.url.path] + _TAIL, headers=policy)

    return Starlette(
        routes=[
            *(Route(path, page) for path in BODIES),
            Route("/style.css", lambda _: Response(STYLE, media_type="text/css")),
            Route("/script.js", lambda _: Response(SCRIPT, media_type="text/javascript")),
            Route("/icon.svg", lambda _: Response(_ICON, media_type="image/svg+xml")),
        ]
    )
