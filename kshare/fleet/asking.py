"""Asks worker processes for their status, all at the same time. Each either tells it, or it is known why not."""

from __future__ import annotations

import socket
from collections.abc import Iterable

import anyio

from kshare.fleet.allowed_hosts import AllowedHosts
from kshare.fleet.host_lookups import HostLookups
from kshare.fleet.http_get import http_get
from kshare.fleet.json_table import NotExpected, NotJson
from kshare.fleet.no_status import NoResponse, NoStatus, Why
from kshare.fleet.status_parsing import parse_status
from kshare.worker.watch.status import ProcessStatus
from kshare.worker.watch.status_url import StatusUrl

Told = ProcessStatus | NoStatus

PROCESS_LIMIT_S = 2.0
"""How long a process may take, from looking up its host to the end of the response."""
_AT_ONCE = 64
_MOST_ADDRESSES = 4
_ANY_PORT = 9
_SHARES, _COMMON = 16 << 20, 16 << 20
_LOOKUPS = HostLookups()
"""For announced hosts, whose names anybody may choose who may write to the topic."""


async def ask_all(
    urls: Iterable[tuple[StatusUrl, AllowedHosts | None]], limit_s: float = PROCESS_LIMIT_S
) -> dict[StatusUrl, Told]:
    """What each tells. With allowed hosts, other addresses aren't asked. What all tell is limited in sum."""
    urls = [*urls]
    budget = BodyBudget(len(urls))
    told: dict[StatusUrl, Told] = {}
    places = {is_given: anyio.CapacityLimiter(_AT_ONCE) for is_given in (True, False)}

    async def ask_one(url: StatusUrl, allowed: AllowedHosts | None) -> None:
        async with places[allowed is None]:  # announced ones don't make those wait whose URLs are given
            told[url] = await ask(url, allowed, limit_s, budget)

    async with anyio.create_task_group() as tasks:
        for url, allowed in urls:
            tasks.start_soon(ask_one, url, allowed)
    return told


async def ask(
    url: StatusUrl,
    allowed: AllowedHosts | None = None,
    limit_s: float = PROCESS_LIMIT_S,
    budget: BodyBudget | None = None,
) -> Told:
    with anyio.move_on_after(limit_s):
        try:
            body = await _body(url, allowed)
            if budget is not None and not budget.take(len(body)):
                return NoStatus(
                    Why.TOO_LARGE,
                    f"its response has {len(body):,} bytes, and those of all processes together are too large",
                )
            return parse_status(body)
        except TimeoutError:
            pass
        except NoResponse as problem:
            return problem.reason
        except NotExpected as problem:
            why = Why.NOT_JSON if isinstance(problem, NotJson) else Why.NOT_EXPECTED
            return NoStatus(why, f"its response isn't the status of a worker: {problem}")
    return NoStatus(Why.TIMED_OUT, f"it has not responded within {limit_s:g} s")


async def _body(url: StatusUrl, allowed: AllowedHosts | None) -> bytes:
    """Tries the addresses of the host one after another. Each gets its share of the time that is left."""
    addresses = await _addresses(url, allowed)
    deadline = anyio.current_effective_deadline()
    problem: OSError = TimeoutError()
    for number, address in enumerate(addresses):
        left = deadline - anyio.current_time()
        with anyio.move_on_after(left / (len(addresses) - number)):
            try:
                return await http_get(url, address)
            except OSError as error:
                problem = error
    if isinstance(problem, TimeoutError):
        raise problem
    raise NoResponse(Why.UNREACHABLE, _described(problem)) from problem


async def _addresses(url: StatusUrl, allowed: AllowedHosts | None) -> list[str]:
    try:
        if allowed is None:
            responses = await anyio.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
            found = [address[0] for *_, address in responses]
        else:
            found = await _LOOKUPS.addresses(url.host, url.port)
    except (OSError, UnicodeError) as problem:
        raise NoResponse(Why.UNKNOWN_HOST, f"the host {url.host} isn't known") from problem
    addresses = list(dict.fromkeys(found))
    if allowed is not None:
        kept = allowed.among(url.host, addresses)
        if not allowed.is_listed:
            kept = [address for address in kept if not is_own(address)]
        if not kept:
            raise NoResponse(
                Why.NOT_ALLOWED,
                f"it was announced at {url.host} ({', '.join(addresses[:_MOST_ADDRESSES])}), which isn't among the "
                "hosts that may be asked: allow it with kshare web --worker-host, or give its URL with --worker",
            )
        addresses = kept
    return addresses[:_MOST_ADDRESSES]


def is_own(address: str) -> bool:
    """Whether it is one of this machine's: then the system would send from the very same one. Nothing is sent."""
    try:
        family, kind, _, _, where = socket.getaddrinfo(
            address, _ANY_PORT, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST
        )[0]
        with socket.socket(family, kind) as probe:
            probe.connect(where)
            return bool(probe.getsockname()[0] == where[0])
    except OSError:
        return False


def _described(problem: BaseException) -> str:
    """anyio's error has those of the operating system as its cause."""
    cause = problem.__cause__ or problem
    if isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    if isinstance(cause, ConnectionRefusedError):
        return "the connection was refused: nothing listens there"
    return getattr(cause, "strerror", None) or str(cause)


class BodyBudget:
    """How many bytes of status pages are kept at a time: untrusted processes may say much, and there may be many.

    Each process has a share that others can't take away. The rest is for those that need more, in the order of their
    responses.
    """

    def __init__(self, count: int) -> None:
        """For so many processes."""
        self._share = _SHARES // max(1, count)
        self._common = _COMMON

    def take(self, size: int) -> bool:
        """Whether the body of another process may be kept."""
        more = max(0, size - self._share)
        if more > self._common:
            return False
        self._common -= more
        return True
