"""Wraps all pages: checks who makes a request, and adds the headers that keep pages safe."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kshare.web.access import Access

MOST_BODY_BYTES = 64 << 20
"""Captures are uploaded."""
_TOO_LARGE = f"at most {MOST_BODY_BYTES >> 20} MB can be sent"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers would send forms with the origin null
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        received = 0

        async def receive_within_limit() -> Message:
            """The length may not have been announced."""
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MOST_BODY_BYTES:
                raise HTTPException(413, _TOO_LARGE)
            return message

        headers = Headers(scope=scope)
        try:
            self._access.check_host(headers.get("host", ""))
            peer = (scope.get("client") or ("", 0))[0]
            scope["kshare.user"] = await self._access.user_of(headers, peer)
            scope["kshare.address"] = self._access.client_address(headers, peer)
            if int(headers.get("content-length", "0") or 0) > MOST_BODY_BYTES:
                raise HTTPException(413, _TOO_LARGE)
        except (HTTPException, ValueError) as error:
            refused = (
                error if isinstance(error, HTTPException) else HTTPException(400, "Content-Length is invalid")
            )
            response = PlainTextResponse(
                f"{refused.detail}\n", refused.status_code, dict(refused.headers or {})
            )
            await response(scope, receive, send_safely)
            return
        await self._app(scope, receive_within_limit, send_safely)
