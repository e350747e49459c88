"""Wraps all pages: checks who makes a request, and adds the headers that keep pages safe."""

from __future__ import annotations

from contextlib import suppress

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kshare.web.access import Access

MOST_BODY_BYTES = 256 << 10
MOST_BYTES_TO_NAME = 64 << 20
"""Captures are uploaded."""
_BODY_PART_S = 10.0
"""How long a connection may be silent in the middle of a body."""
_UPLOADS = "/wire"
MAKING = "kshare.making"
"""Where a request has the scope that its connection cancels when the client leaves."""
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

        received, is_whole = 0, False
        headers = Headers(scope=scope)
        most = MOST_BYTES_TO_NAME if _is_upload(scope["path"], headers) else MOST_BODY_BYTES
        too_large = HTTPException(413, f"at most {most:,} bytes can be sent")

        async def receive_within_limit() -> Message:
            """The length may not have been announced. After the body, only the end of the connection can come."""
            nonlocal received, is_whole
            if is_whole:
                return await receive()
            with anyio.move_on_after(_BODY_PART_S) as waiting:
                message = await receive()
            if waiting.cancelled_caught:
                raise HTTPException(408, "the request took too long to arrive")
            is_whole = not message.get("more_body", False)
            received += len(message.get("body", b""))
            if received > most:
                raise too_large
            return message

        try:
            self._access.check_host(headers.get("host", ""))
            self._access.check_origin(scope["method"], headers)
            peer = (scope.get("client") or ("", 0))[0]
            scope["kshare.user"] = await self._access.user_of(headers, peer)
            scope["kshare.address"] = peer
            scope["kshare.forwarded_for"] = self._access.forwarded_for(headers, peer)
            if int(headers.get("content-length", "0") or 0) > most:
                raise too_large
            if scope["method"] == "GET" and _has_body(headers):
                raise HTTPException(400, "to ask for a page, no body is needed")
        except (HTTPException, ValueError) as error:
            refused = (
                error if isinstance(error, HTTPException) else HTTPException(400, "Content-Length is invalid")
            )
            ending = {} if _has_body(headers) else {"Connection": "close"}
            response = PlainTextResponse(
                f"{refused.detail}\n", refused.status_code, {**(refused.headers or {}), **ending}
            )
            await response(scope, receive, send_safely)
            return
        # Nobody waits for the response of a client that leaves in the middle of a body, or before its page is made.
        with suppress(ClientDisconnect), anyio.CancelScope() as making:
            if scope["method"] == "GET":  # others change something, which isn't left half done
                scope[MAKING] = making
            await self._app(scope, receive_within_limit, send_safely)


def _is_upload(path: str, headers: Headers) -> bool:
    """Fields of other forms are parsed before it is clear who has sent them, so they are small."""
    return path == _UPLOADS and headers.get("content-type", "").lower().startswith("multipart/form-data")


def _has_body(headers: Headers) -> bool:
    """If so, the connection ends all the same (see `connections`), but not before the client has seen the response."""
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
