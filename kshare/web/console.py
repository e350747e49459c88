"""What all pages share: the settings, what is known of the cluster, and how a page is made."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

import anyio
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from kshare.admin.routing import Router
from kshare.errors import BrokerError, ConfigError, EncodeError
from kshare.net.addresses import format_address
from kshare.net.pool import Pool
from kshare.protocol.error_codes import ErrorCode
from kshare.web.access import Access, session_cookie
from kshare.web.audit import AuditLog
from kshare.web.config import WebConfig
from kshare.web.jobs import Jobs
from kshare.web.rendering import make_environment
from kshare.web.schema_decoding import SchemaDecoder
from kshare.web.turns import Turns
from kshare.web.users import User
from kshare.web.watcher import Watcher

_STALE_AFTER_S = 30.0
"""Readings of the largest clusters are 15 seconds apart."""
_MOST_ASKING = 8
"""Pages that ask the cluster at a time: each has its own connections."""
_MOST_READING = 3
"""Of these, pages that read records: each may have a large batch, decompressed."""
_MOST_FIELDS = 200
"""Of a form."""
LIMIT_S = 15.0
"""How long a page may wait for the cluster."""
_STATUS: dict[int, int] = {
    ErrorCode.GROUP_ID_NOT_FOUND: 404,  # it was deleted since the last reading
    ErrorCode.NON_EMPTY_GROUP: 409,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.INVALID_TOPIC_EXCEPTION: 400,
    ErrorCode.INVALID_GROUP_ID: 400,
}


class Console:
    def __init__(self, config: WebConfig, watcher: Watcher) -> None:
        self.config = config
        self.watcher = watcher
        self.access = Access(config)
        self.audit = AuditLog(config.audit_log)
        self.jobs = Jobs(self.audit)
        self.decoder = SchemaDecoder(config.schema_registry)
        self.is_closing = anyio.Event()
        self._asking: set[anyio.CancelScope] = set()
        """Of pages that wait for the cluster."""
        self._turns = Turns(_MOST_ASKING, "others are asking the cluster just now: try again in a moment")
        self._reading_turns = Turns(
            _MOST_READING, "others are reading records just now: try again in a moment"
        )
        self._environment = make_environment()

    @property
    def server(self) -> str:
        """The bootstrap server, for suggested commands."""
        return format_address(self.config.net.bootstrap[0])

    @asynccontextmanager
    async def router(self, *, reads_records: bool = False) -> AsyncIterator[Router]:
        """Connections to the cluster for one page, of which a few are made at a time.

        A page that takes longer than it may is an error.
        """
        with anyio.move_on_after(2 * LIMIT_S) as scope:
            self._asking.add(scope)
            try:
                reading_turn = self._reading_turns.turn() if reads_records else nullcontext()
                async with reading_turn, self._turns.turn(), Pool(self.config.net) as pool:
                    await pool.bootstrap(timeout=LIMIT_S)
                    yield Router(pool, LIMIT_S)
            finally:
                self._asking.discard(scope)
        if scope.cancelled_caught and self.is_closing.is_set():
            raise HTTPException(503, "the console is being stopped")
        if scope.cancelled_caught:
            raise HTTPException(504, "the cluster took too long to respond")

    def close(self) -> None:
        """End what waits for the cluster, for changes or for a schema: the console is being stopped."""
        self.is_closing.set()
        for scope in self._asking:
            scope.cancel()
        self.jobs.close()
        self.decoder.close()

    def render(
        self, request: Request, template: str, *, status: int = 200, is_live: bool = True, **values: Any
    ) -> Response:
        """Pages that take long to make aren't live: they aren't loaded again with each reading."""
        known = self.access.session_of(request.headers)
        session = known or self.access.new_session(request.headers)
        user = user_of(request)
        view = self.watcher.view
        text = self._environment.get_template(template).render(
            request=request,
            path=request.url.path,
            stale_after=_STALE_AFTER_S,
            is_followed=is_live and request.method == "GET" and status == 200,
            parameters=dict(request.query_params),
            view=view,
            cluster=self.server,
            user=user,
            may_change=self.access.may_change(user),
            token=self.access.token(session),
            **values,
        )
        response = HTMLResponse(text, status)
        if known is None:
            response.set_cookie(
                session_cookie(request.headers),
                session,
                httponly=True,
                samesite="strict",
                secure=_is_encrypted(request),
            )
        return response

    def change(
        self, request: Request, action: str, target: str, **details: Any
    ) -> AbstractAsyncContextManager[dict[str, Any]]:
        """Writes down a change that this request makes: see `AuditLog.change`."""
        return self.audit.change(user_of(request).name, action, target, **origin_of(request), **details)

    async def form(self, request: Request, *, is_change: bool = True) -> FormData:
        """The form of a POST, once it is clear that the user has sent it. Without `is_change`, a mere question."""
        if is_change:
            self.access.check_change(user_of(request))
        self.access.check_unread_form(request)
        is_upload = request.headers.get("content-type", "").lower().startswith("multipart/")
        # Starlette counts fields, but not the separators between empty ones.
        if not is_upload and (await request.body()).count(b"&") >= _MOST_FIELDS:
            raise HTTPException(400, f"a form has at most {_MOST_FIELDS} fields")
        form = await request.form(max_files=1, max_fields=_MOST_FIELDS)
        self.access.check_form(request, form, user_of(request), is_change=is_change)
        return form


def user_of(request: Request) -> User:
    user = request.scope["kshare.user"]
    assert isinstance(user, User)
    return user


def address_of(request: Request) -> str:
    """The address that the request comes from: behind a proxy, the proxy's."""
    address = request.scope["kshare.address"]
    assert isinstance(address, str)
    return address


def origin_of(request: Request) -> dict[str, str]:
    """Where a request comes from, for the audit log: what we know, and what a proxy says."""
    forwarded_for = request.scope["kshare.forwarded_for"]
    return {
        "address": address_of(request),
        **({"forwarded_for": forwarded_for} if forwarded_for else {}),
    }


def _is_encrypted(request: Request) -> bool:
    """Whether the browser uses TLS. Proxies aren't asked whether they are trusted: a client that lies about it only
    gets a cookie that it won't send."""
    forwarded = ",".join(request.headers.getlist("x-forwarded-proto")).rpartition(",")[2]
    return "https" in (request.url.scheme, forwarded.strip().lower())


def owner_of(request: Request) -> str:
    """Who gets back what this request has loaded: a user in a browser session."""
    return f"{request.cookies.get(session_cookie(request.headers), '')} {user_of(request).name}"


def text_of(form: FormData, name: str) -> str:
    """A field of a form; empty if it is missing."""
    value = form.get(name)
    return value if isinstance(value, str) else ""


def status_of(error: Exception) -> int:
    """The HTTP status: 502 for what the cluster refuses, unless the user can do something about it."""
    if isinstance(error, ConfigError | EncodeError):
        return 400
    return _STATUS.get(error.code, 502) if isinstance(error, BrokerError) else 502


def reason_of(error: Exception) -> str:
    """The sentence for the user."""
    if isinstance(error, EncodeError):  # names and values are all that users give
        return f"this can't be sent to Kafka: {error.reason}. Write a shorter text"
    return str(error)
