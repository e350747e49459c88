"""Decides who makes a request, and whether it is allowed, before any page sees it.

request                                              | response
-----------------------------------------------------+-----------------------------------------
with a Host header that isn't ours                   | 421: it may be DNS rebinding
without a valid name and password, if there are users| 401
after many wrong passwords of this name or address   | 429
without a trusted proxy's header, if one is expected | 401
by another site's page, other than to open one       | 403
a POST that another site has sent                    | 403
a POST without a session, or whose body isn't UTF-8  | 403, 415
a POST without the token of this session's forms     | 403
a POST while changes aren't allowed, or not to them  | 403

Only the last two need the body, which is parsed after everything else was checked.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import logging
import math
import secrets
from email.message import Message

from anyio import current_time, to_thread
from starlette.datastructures import FormData, Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request, cookie_parser

from kshare.log_text import escaped
from kshare.web.config import WebConfig
from kshare.web.login_limits import LoginLimits, LoginTurns
from kshare.web.users import User, Users, UsersFile

log = logging.getLogger("kshare.web")

_SESSION_COOKIE = "kshare_session"
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_OUTDATED = "this form is outdated: reload the page, and send it again"
_READER = "anyone on this machine"
_SAME_SITE = ("same-origin", "none")
"""Values of Sec-Fetch-Site for our own pages, and for requests that no page has made."""


class Access:
    def __init__(self, config: WebConfig) -> None:
        self._config = config
        has_passwords = config.user_header is None
        self._users = UsersFile(config.users, has_passwords=has_passwords) if config.users else None
        self._key = secrets.token_bytes(32)
        self._turns = LoginTurns()
        self._limits = LoginLimits()
        if self._users is not None and has_passwords and not config.is_loopback:
            log.warning(
                "passwords are sent to %s without encryption: allow only a proxy with TLS to reach it, or listen on "
                "127.0.0.1 behind a proxy",
                config.host,
            )

    def check_host(self, host: str) -> None:
        name = host.rpartition(":")[0] if _has_port(host) else host
        if name.strip("[]").lower() not in self._config.hosts:
            raise HTTPException(
                421, f"this console isn't known as {name or 'nothing'}: start it with --allowed-host"
            )

    async def user_of(self, headers: Headers, address: str) -> User:
        """Who makes the request, from this address. Raises HTTPException 401 or 429."""
        users = self._users.current() if self._users is not None else None
        if self._config.user_header is not None:
            if address not in self._config.proxies:
                raise HTTPException(401, f"{address} isn't a trusted proxy: see --trusted-proxy")
            names = headers.getlist(self._config.user_header)
            if len(names) > 1:
                raise HTTPException(401, f"the header {self._config.user_header} was sent more than once")
            name = "".join(names)
            if not name:
                raise HTTPException(401, f"the proxy passed no user in the header {self._config.user_header}")
            return users.named(name) if users is not None else User(name, True)
        if users is not None:
            return await self._logged_in(users, headers, address)
        return User(_READER, True)

    async def _logged_in(self, users: Users, headers: Headers, address: str) -> User:
        name, password = _credentials(headers)
        # Only a client that has sent the right password before is exempt from the limits. If it were enough that
        # another client has, one that guesses could tell the right password, however many were wrong.
        user = users.remembered(name, password) if self.session_of(headers) else None
        if user is None and name:
            async with self._turns.turn(address):
                self._check_limits(address, name)
                user = users.remembered(name, password)
                if user is None:
                    # In a thread, and one at a time: checking a password is slow on purpose.
                    user = await to_thread.run_sync(users.check, name, password, abandon_on_cancel=True)
                    self._note_login(address, name, is_right=user is not None)
        if user is None:
            raise HTTPException(401, "a name and a password are needed", {"WWW-Authenticate": _BASIC})
        return user

    def _check_limits(self, address: str, name: str) -> None:
        wait_s = math.ceil(self._limits.wait_s(address, name, current_time()))
        if wait_s:
            raise HTTPException(
                429, f"too many wrong passwords: try again in {wait_s} s", {"Retry-After": str(wait_s)}
            )

    def _note_login(self, address: str, name: str, *, is_right: bool) -> None:
        if is_right:
            self._limits.on_right(address, name)
            return
        count = self._limits.on_wrong(address, name, current_time())
        wait_s = math.ceil(self._limits.wait_s(address, name, current_time()))
        log.warning(
            "wrong password for user %s from %s: number %d within a minute%s",
            escaped(name[:100]),
            address,
            count,
            f"; no more are checked for {wait_s} s" if wait_s else "",
        )

    def forwarded_for(self, headers: Headers, address: str) -> str:
        """The address for which a trusted proxy says that it asks; empty if it says none.

        It is the last one in the header, which the proxy adds itself. Whether it does so, we can't know: if it doesn't,
        this is what the client says.
        """
        if self._config.user_header is None or address not in self._config.proxies:
            return ""
        last = ",".join(headers.getlist("x-forwarded-for")).rpartition(",")[2].strip()
        try:
            return str(ipaddress.ip_address(last))
        except ValueError:
            return ""

    def may_change(self, user: User) -> bool:
        return self._config.allow_changes and user.may_change

    def new_session(self, headers: Headers) -> str:
        """For a cookie of whoever makes a request that was allowed."""
        nonce = secrets.token_urlsafe(24)
        return f"{nonce}.{self._session_proof(nonce, headers)}"

    def session_of(self, headers: Headers) -> str | None:
        """The session in the cookie; None unless we gave it out for the name and password that the request has."""
        session = cookie_parser(headers.get("cookie", "")).get(session_cookie(headers), "")
        nonce, _, proof = session.partition(".")
        return session if _is_equal(proof, self._session_proof(nonce, headers)) else None

    def _session_proof(self, nonce: str, headers: Headers) -> str:
        return self.seal("session", nonce, *_credentials(headers))

    def token(self, session: str) -> str:
        """What a form of this session must contain."""
        return hmac.new(self._key, session.encode(), hashlib.sha256).hexdigest()

    def seal(self, *parts: str) -> str:
        """Proves that we have written these parts."""
        return hmac.new(self._key, "\0".join(parts).encode(), hashlib.sha256).hexdigest()[:32]

    def is_sealed(self, seal: str, *parts: str) -> bool:
        return _is_equal(seal, self.seal(*parts))

    def check_origin(self, method: str, headers: Headers) -> None:
        """Raises HTTPException 403 if a page of another site makes the request, unless a user follows a link there."""
        if headers.get("sec-fetch-site", "none") in _SAME_SITE and (method == "GET" or _is_own(headers)):
            return
        is_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        if method != "GET" or not is_link:
            raise HTTPException(403, "another site has sent this request")

    def check_unread_form(self, request: Request) -> None:
        """Raises HTTPException 403 or 415 for a form that needn't be read to be refused."""
        if self.session_of(request.headers) is None:
            raise HTTPException(403, _OUTDATED)
        kind = Message()
        kind["content-type"] = request.headers.get("content-type", "")
        charset = kind.get_content_charset("utf-8")
        if kind.get_content_type() not in _FORMS or charset not in ("utf-8", "utf8"):
            raise HTTPException(415, "a form in UTF-8 is expected")

    def check_form(self, request: Request, form: FormData, user: User, *, is_change: bool = True) -> None:
        """Raises HTTPException 403 unless one of our own pages has sent the form."""
        session = self.session_of(request.headers)
        sent = form.get("token")
        if session is None or not isinstance(sent, str) or not _is_equal(sent, self.token(session)):
            raise HTTPException(403, _OUTDATED)
        if is_change:
            self.check_change(user)

    def check_change(self, user: User) -> None:
        """Raises HTTPException 403."""
        if not self._config.allow_changes:
            raise HTTPException(403, "this console is read-only: start it with --allow-changes")
        if not user.may_change:
            raise HTTPException(403, f"{user.name} may read, but not make changes")


_BASIC = 'Basic realm="kshare", charset="UTF-8"'


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and (host.count(":") == 1 or "]:" in host)


def session_cookie(headers: Headers) -> str:
    """Its name. Browsers send a cookie to all ports of a host, and there may be a console at each."""
    host = headers.get("host", "")
    return f"{_SESSION_COOKIE}_{host.rpartition(':')[2]}" if _has_port(host) else _SESSION_COOKIE


def _credentials(headers: Headers) -> tuple[str, str]:
    """The name and the password; both empty if there are none."""
    kind, _, encoded = headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:  # neither base64 nor UTF-8
        return "", ""
    return name, password


def _is_own(headers: Headers) -> bool:
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host")


def _is_equal(one: str, other: str) -> bool:
    """In constant time, also for characters that no token has."""
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())
