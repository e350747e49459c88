"""SASL authentication with kafka-python's mechanisms; the caller sends the requests.

Decides how a refusal is reported. The mechanisms hash passwords and may contact a Kerberos server, so they run in a
thread. Secrets never appear in errors or logs.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Protocol, cast

from anyio import to_thread

from kshare.errors import AuthenticationFailed, ConfigError, KshareError
from kshare.net.addresses import is_loopback
from kshare.net.connection import AskFunction
from kshare.net.settings import NEEDS_EXTRA, Security
from kshare.protocol.error_codes import ErrorCode, error_name
from kshare.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest

log = logging.getLogger("kshare.net")

_ITERATIONS = re.compile(rb"r=[^,]*,s=[^,]*,i=([0-9]{1,10})")
_LEAST_ITERATIONS = 4096
"""Of RFC 7677, and of Kafka. An impostor that asks for fewer gets a proof that can be guessed from quickly."""
_SENT_AS_THEY_ARE = {
    "PLAIN": "the password (sasl_mechanism PLAIN) is",
    "OAUTHBEARER": "the token (OAUTHBEARER) is",
}
_MAX_ROUNDS = 20
"""SCRAM takes two, Kerberos a few: a broker that requires more is faulty."""


class _Mechanism(Protocol):
    def auth_bytes(self) -> bytes: ...

    def receive(self, auth_bytes: bytes) -> object: ...

    def is_done(self) -> bool: ...

    def is_authenticated(self) -> bool: ...


async def authenticate(ask: AskFunction, security: Security, host: str, peer: str) -> float | None:
    """Returns after how many seconds to re-authenticate; None if the session lasts as long as the connection."""
    token = await _fresh_token(security)
    mechanism = await _start_mechanism(security, token, host)
    sent = _SENT_AS_THEY_ARE.get(security.sasl_mechanism or "")
    if sent and security.tls is False and not is_loopback(host):
        warn_of_plain_text(sent)
    await _choose_mechanism(ask, cast("str", security.sasl_mechanism), peer)
    try:
        lifetime_ms = await _exchange_messages(
            ask, mechanism, f"{security.sasl_mechanism} as {security.username or 'ourselves'}"
        )
    except AuthenticationFailed as error:
        raise AuthenticationFailed(_without_secrets(f"{peer}: {error}", security, token)) from None
    log.debug("authenticated with %s by %s", peer, security.sasl_mechanism)
    return lifetime_ms / 1000 if lifetime_ms > 0 else None


@cache
def warn_of_plain_text(sent: str) -> None:
    """Once in a process: programs may connect often."""
    log.warning(
        "%s sent to brokers without encryption, so anyone on the network path can read it: use a listener with TLS "
        "(tls=True; in Kafka's terms, security.protocol=SASL_SSL)",
        sent,
    )


async def _start_mechanism(security: Security, token: str | None, host: str) -> _Mechanism:
    try:
        return cast("_Mechanism", await _in_thread(partial(_make_mechanism, security, token, host)))
    except KshareError:
        raise
    except Exception as error:
        text = f"{security.sasl_mechanism} can't begin: {type(error).__name__}: {error}"
        raise AuthenticationFailed(_without_secrets(text, security, token)) from None


async def _exchange_messages(ask: AskFunction, mechanism: _Mechanism, step: str) -> int:
    """Exchanges messages until the mechanism is done; returns the session's lifetime in milliseconds."""
    challenge = b""
    for _ in range(_MAX_ROUNDS):
        try:
            token = await _in_thread(mechanism.auth_bytes)
        except Exception as error:
            raise AuthenticationFailed(f"{step} failed: {type(error).__name__}: {error}") from None
        response = await ask(SaslAuthenticateRequest(token))
        if response.error_code:
            reason = response.error_message or error_name(response.error_code)
            raise AuthenticationFailed(f"{step} was refused: {reason}{_readable(challenge)}")
        challenge = response.auth_bytes
        found = _ITERATIONS.match(challenge) if step.startswith("SCRAM") else None
        if found is not None and int(found[1]) < _LEAST_ITERATIONS:
            raise AuthenticationFailed(
                f"{step} was stopped: with the iteration count {int(found[1])}, an eavesdropper could guess the "
                f"password (Kafka's minimum is {_LEAST_ITERATIONS:,})"
            )
        try:
            await _in_thread(partial(mechanism.receive, challenge))
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            raise AuthenticationFailed(
                f"{step} got an invalid response ({problem}){_readable(challenge)}"
            ) from None
        if mechanism.is_done():
            break
    if not mechanism.is_done() or not mechanism.is_authenticated():
        raise AuthenticationFailed(f"{step} did not complete{_readable(challenge)}")
    return response.session_lifetime_ms


async def _choose_mechanism(ask: AskFunction, mechanism: str, peer: str) -> None:
    response = await ask(SaslHandshakeRequest(mechanism), version=1)
    match response.error_code:
        case ErrorCode.NONE:
            return
        case ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(response.mechanisms) or "none"
            raise AuthenticationFailed(f"{peer} doesn't support {mechanism}: it offers {offered}")
        case ErrorCode.ILLEGAL_SASL_STATE:
            raise AuthenticationFailed(
                f"{peer} has no SASL on this listener: leave sasl_mechanism out, or use another port"
            )
        case code:
            raise AuthenticationFailed(f"{peer} refused to begin {mechanism}: {error_name(code)}")


def _make_mechanism(security: Security, token: str | None, host: str) -> _Mechanism:
    try:
        from kafka.net.sasl import get_sasl_mechanism  # takes a tenth of a second, and only SASL needs it
    except ImportError as error:
        raise ConfigError(f"{NEEDS_EXTRA} ({error})") from None

    make = cast("Callable[..., _Mechanism]", get_sasl_mechanism(security.sasl_mechanism))
    match security.sasl_mechanism:
        case "OAUTHBEARER":
            return make(sasl_oauth_token_provider=_provider_of(cast("str", token)))
        case "GSSAPI":
            try:
                return make(
                    sasl_kerberos_service_name=security.kerberos_service_name,
                    sasl_kerberos_domain_name=security.kerberos_domain_name or "",
                    host=host,
                )
            except RuntimeError as error:
                raise ConfigError(f"GSSAPI needs the package gssapi: pip install gssapi ({error})") from None
        case "PLAIN":
            user = cast("str", security.username)
        case _:
            user = (
                cast("str", security.username).replace("=", "=3D").replace(",", "=2C")
            )  # as RFC 5802 requires
    return make(
        sasl_mechanism=security.sasl_mechanism,
        sasl_plain_username=user,
        sasl_plain_password=security.password,
    )


def _provider_of(token: str) -> object:
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return token

    return Provider()


async def _fresh_token(security: Security) -> str | None:
    if security.sasl_mechanism != "OAUTHBEARER":
        return None
    give = cast("Callable[[], Any]", security.token)
    try:
        # In a list, because trio lets no thread return an awaitable; calling an `async def` function only creates one.
        [token] = [give()] if inspect.iscoroutinefunction(give) else await _in_thread(lambda: [give()])
        if inspect.isawaitable(token):
            token = await token
    except Exception as error:
        raise AuthenticationFailed(f"the token function failed: {type(error).__name__}: {error}") from error
    if not isinstance(token, str) or not token or "\x01" in token:
        raise AuthenticationFailed(
            f"the token function returned an invalid token of type {type(token).__name__}"
        )
    return token


async def _in_thread(work: Callable[[], Any]) -> Any:
    return await to_thread.run_sync(work, abandon_on_cancel=True)


def _readable(challenge: bytes) -> str:
    """The broker's last message if it is readable: OAUTHBEARER reports errors there, as JSON."""
    text = bytes(challenge).decode("utf-8", "replace")
    return f" ({text})" if text.startswith(("{", "e=")) else ""


def _without_secrets(text: str, security: Security, token: str | None) -> str:
    for secret in (*security.secrets(), token):
        if secret:
            text = text.replace(secret, "***")
    return text
