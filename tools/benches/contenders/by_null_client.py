"""What the broker and Python allow: a client that only sends requests, waits for responses, and decodes no records."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kshare.protocol.envelopes import decode_response, encode_request
from kshare.protocol.message import Request
from kshare.protocol.messages import ShareFetchResponse
from tests.helpers.plain_client import PlainClient
from tools.benches.contenders.null_member import NullMember, joined
from tools.benches.contenders.program import Delays, Given, Meter, end_of_input, main

_MOMENT = re.compile(rb"\d+\.\d{6}")
_ROOM = 1 << 20

Ask = Callable[[Request[Any]], Awaitable[Any]]


def read(given: Given) -> None:
    """Fetches and accepts as fast as possible. Each request accepts the records of the previous one."""
    ended = end_of_input()
    seen, records = 0, int(given["records"])
    meter = Meter()
    with joined(given) as (member, client):
        while seen < records and not ended.is_set():
            heartbeat = member.heartbeat()
            if heartbeat is not None:
                client.ask(heartbeat)
            count = member.on_fetched(client.ask(member.fetch()))
            if count:
                meter.on_records()
            seen += count
        meter.report(seen)


def latency(given: Given) -> None:
    """`wait=socket`: on a blocking socket. `wait=asyncio`: in an event loop, in the fastest way, a callback that wakes
    a task. The values of records are found by a regular expression."""
    asyncio.run(_latency(given))


async def _latency(given: Given) -> None:
    with joined(given) as (member, client):
        if given["wait"] == "socket":
            await _measure(given, member, on_socket(client))
        else:
            with in_loop(client) as ask:
                await _measure(given, member, ask)


async def _measure(given: Given, member: NullMember, ask: Ask) -> None:
    ended = end_of_input()
    delays = Delays(given)
    while not delays.is_complete and not ended.is_set():
        heartbeat = member.heartbeat()
        if heartbeat is not None:
            await ask(heartbeat)
        response = await ask(member.fetch())
        received = time.monotonic()
        delays.hand += [received - moment for moment in _moments(response)]
        if member.on_fetched(response) and delays.is_explicit:
            member.on_acknowledged(await ask(member.acknowledgement()))
            delays.on_committed(received, {})
    delays.report()


def _moments(response: ShareFetchResponse) -> Iterator[float]:
    for topic in response.responses:
        for partition in topic.partitions:
            if partition.acquired_records:
                yield from map(float, _MOMENT.findall(partition.records or b""))


def on_socket(client: PlainClient) -> Ask:
    async def ask(request: Request[Any]) -> Any:
        return client.ask(request)

    return ask


@contextmanager
def in_loop(client: PlainClient) -> Iterator[Ask]:
    """Let the running event loop handle the connection."""
    loop, connection = asyncio.get_running_loop(), client.connection
    come = bytearray()
    waiting: asyncio.Future[memoryview] | None = None

    def receive() -> None:
        nonlocal come
        come += connection.recv(_ROOM)
        if len(come) >= 4 and len(come) == 4 + int.from_bytes(come[:4], "big") and waiting is not None:
            frame, come = memoryview(come), bytearray()
            waiting.set_result(frame[4:])

    async def ask(request: Request[Any]) -> Any:
        nonlocal waiting
        version = client.version_of(request)
        waiting = loop.create_future()
        connection.send(encode_request(request, version, 1, "kshare-test"))
        return decode_response(request.RESPONSE, version, await waiting)[1]

    connection.setblocking(False)
    loop.add_reader(connection, receive)
    try:
        yield ask
    finally:
        loop.remove_reader(connection)


if __name__ == "__main__":
    main(read, latency)
