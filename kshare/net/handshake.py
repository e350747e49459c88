"""Opens connections: TCP, TLS, API versions, SASL; and re-authenticates before a SASL session ends.

Decides the order of the steps and how their failures are reported. The pool decides where and when to connect.
"""

from __future__ import annotations

import logging
import re
import ssl
from random import Random

import anyio
from anyio.abc import TaskGroup

from kshare.errors import ConnectionLost, DecodeError, KshareError, RequestTimedOut, Unsupported
from kshare.installation import version as kshare_version
from kshare.net import sasl, tcp, tls
from kshare.net.addresses import Address, format_address
from kshare.net.connection import Connection, NetMeter
from kshare.net.error_translation import Proof, connect_error, reason
from kshare.net.settings import NetSettings
from kshare.net.stream import Stream
from kshare.net.versions import BrokerVersions
from kshare.protocol.envelopes import decode_response, is_version_refused
from kshare.protocol.error_codes import error_name
from kshare.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from kshare.surroundings import new_random
from kshare.wording import not_connected

log = logging.getLogger("kshare.net")

FIRST_VERSION = 4
"""The version of ApiVersions that every broker with share groups supports; a newer one would often cost a retry."""
REAUTHENTICATE_AFTER = (0.80, 0.88)
"""The fraction of a SASL session after which to re-authenticate: random, so that not all clients do so at once."""


class Dialer:
    """Opens connections with one set of settings."""

    def __init__(
        self, settings: NetSettings, random: Random | None = None, meter: NetMeter | None = None
    ) -> None:
        self._settings = settings
        self._random = random or new_random()
        self._meter = meter
        self._context: ssl.SSLContext | None = None
        self._proof = Proof()

    async def dial(self, address: Address, tasks: TaskGroup, *, deadline: float = float("inf")) -> Connection:
        """Returns a ready connection owned by `tasks`, or raises KshareError, by `connect_timeout` and `deadline`."""
        peer = format_address(address)
        attempt = _Attempt(peer)
        remaining = deadline - anyio.current_time()
        with anyio.move_on_after(min(self._settings.connect_timeout, remaining)):
            try:
                return await self._dial(address, attempt, tasks)
            except RequestTimedOut as error:
                raise ConnectionLost(f"can't reach {peer}: {error}") from None
            except DecodeError as error:
                raise ConnectionLost(f"can't reach {peer}: its response can't be decoded: {error}") from error
        if remaining < self._settings.connect_timeout:
            raise ConnectionLost(f"can't reach {peer}: {not_connected(remaining)} (no {attempt.step})")
        raise ConnectionLost(
            f"can't reach {peer}: no {attempt.step} within {self._settings.connect_timeout:g} s"
        )

    async def _dial(self, address: Address, attempt: _Attempt, tasks: TaskGroup) -> Connection:
        stream = await self._open_stream(address, attempt)
        connection = Connection(stream, attempt.peer, self._settings, self._meter, self._proof)
        try:
            connection.start(tasks)
        except RuntimeError:  # the group has ended while the stream was opened
            await _abandon(stream)
            raise ConnectionLost("the connection was abandoned while connecting") from None
        try:
            attempt.step = "response to ApiVersions"
            connection.versions = await ask_versions(connection)
            if self._settings.security.sasl_mechanism:
                attempt.step = "SASL authentication"
                await self._log_in(connection, address[0])
        except BaseException as error:
            problem = (
                error if isinstance(error, KshareError) else ConnectionLost("abandoned while connecting")
            )
            connection.end(problem)
            with anyio.CancelScope(shield=True):
                await connection.wait_closed()
            raise
        log.debug("connected to %s", attempt.peer)
        return connection

    async def _open_stream(self, address: Address, attempt: _Attempt) -> Stream:
        host, port = address
        security = self._settings.security
        if security.tls and self._context is None:
            self._context = await anyio.to_thread.run_sync(tls.make_context, security)
        stream: Stream | None = None
        try:
            if self._context is None:
                return await tcp.network.get().connect(host, port)
            stream = connected = await tcp.connect(host, port)
            attempt.step = "TLS handshake"
            return await tls.wrap(connected, self._context, host)
        except BaseException as error:
            await _abandon(stream)
            if not isinstance(error, Exception):
                raise
            if stream is not None and not isinstance(error, ssl.SSLError | UnicodeError):
                broken = f"the connection broke ({reason(error)})"
                what = "closed the connection" if isinstance(error, anyio.EndOfStream) else broken
                raise ConnectionLost(
                    f"{attempt.peer}: {what} during the TLS handshake; does its listener use TLS?"
                ) from error
            raise connect_error(error, attempt.peer) from error

    async def _log_in(self, connection: Connection, host: str) -> None:
        security = self._settings.security
        lifetime = await sasl.authenticate(connection.ask, security, host, connection.peer)
        if lifetime is not None:
            renewals = _Reauthentication(connection, self._settings, host, lifetime, self._random)
            connection.start_task(renewals.run)


class _Attempt:
    """The current step, for the error message of a timeout."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.step = "TCP connection"


class _Reauthentication:
    """Re-authenticates on the same connection before the broker would end the session (KIP-368).

    Other requests wait until it is done: the broker accepts none then. Earlier requests get responses first, including
    a fetch that waits for records. If the session expires in that time, the broker tolerates it as long as only SASL
    requests follow.
    """

    def __init__(
        self, connection: Connection, settings: NetSettings, host: str, lifetime: float, random: Random
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._host = host
        self._lifetime: float | None = lifetime
        self._random = random

    async def run(self) -> None:
        peer = self._connection.peer
        while self._lifetime is not None and self._connection.is_open:
            await anyio.sleep(self._lifetime * self._random.uniform(*REAUTHENTICATE_AFTER))
            try:
                with anyio.fail_after(self._settings.request_timeout):
                    async with self._connection.exclusive() as ask:
                        self._lifetime = await sasl.authenticate(
                            ask, self._settings.security, self._host, peer
                        )
            except TimeoutError:
                self._connection.end(ConnectionLost(f"re-authenticating with {peer} timed out"))
            except KshareError as error:
                log.warning("re-authenticating with %s failed: %s", peer, error)
                self._connection.end(error)


async def ask_versions(connection: Connection) -> BrokerVersions:
    """Asks the broker which API versions it supports, in a version of ApiVersions that it understands."""
    own_version = re.sub(r"[^a-zA-Z0-9.-]", "-", kshare_version())  # in the characters that brokers accept
    version = FIRST_VERSION
    for _ in range(2):
        request = ApiVersionsRequest("kshare", own_version)
        # Not decoded yet: the response may be in another version.
        frame = await connection.wait_for_response(connection.send(request, version=version))
        response, is_refusal = _decode_versions(frame, version)
        if not is_refusal:
            if response.error_code:
                reason = f"{connection.peer} refused ApiVersions: {error_name(response.error_code)}"
                raise Unsupported(reason)
            return BrokerVersions.of(response)
        version = _offered_version(response)
    raise Unsupported(f"{connection.peer} refuses the version of ApiVersions that it offers itself")


def _decode_versions(frame: memoryview, version: int) -> tuple[ApiVersionsResponse, bool]:
    """The response, and whether it refuses the version of the request."""
    is_refusal = is_version_refused(frame)
    return decode_response(ApiVersionsResponse, 0 if is_refusal else version, frame)[1], is_refusal


def _offered_version(refusal: ApiVersionsResponse) -> int:
    """The best version of ApiVersions according to a refusal; very old brokers list nothing and support version 0."""
    for api in refusal.api_keys:
        if api.api_key == ApiVersionsRequest.API_KEY:
            return max(0, min(api.max_version, FIRST_VERSION))
    return 0


async def _abandon(stream: Stream | None) -> None:
    if stream is not None:
        with anyio.CancelScope(shield=True):
            await anyio.aclose_forcefully(stream)
