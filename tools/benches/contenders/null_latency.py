"""Measures the minimum latency of a Python client, which only sends requests and waits for responses.

`wait=socket`: on a blocking socket. `wait=asyncio`: in an event loop, in the fastest way, a callback that wakes a task.
Records aren't decoded: their values are found by a regular expression.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kshare.protocol.envelopes import decode_response, encode_request
from kshare.protocol.message import Request
from kshare.protocol.messages import ShareFetchResponse
from tests.helpers.plain_client import PlainClient
from tools.benches.contenders.arguments import arguments, end_of_input, say
from tools.benches.contenders.null_member import NullMember, joined

_MOMENT = re.compile(rb"\d+\.\d{6}")
_ROOM = 1 << 20

Ask = Callable[[Request[Any]], Awaitable[Any]]


async def read(given: dict[str, str], member: NullMember, ask: Ask) -> tuple[list[float], list[float]]:
    ended = end_of_input()
    records, is_explicit = int(given["records"]), given["mode"] == "explicit"
    hand: list[float] = []
    acknowledged: list[float] = []
    while len(hand) < records and not ended.is_set():
        heartbeat = member.heartbeat()
        if heartbeat is not None:
            await ask(heartbeat)
        answer = await ask(member.fetch())
        received = time.monotonic()
        hand += [received - moment for moment in _moments(answer)]
        if member.on_fetched(answer) and is_explicit:
            member.on_acknowledged(await ask(member.acknowledgement()))
            acknowledged += [time.monotonic() - received] * (len(hand) - len(acknowledged))
    return hand, acknowledged


def _moments(answer: ShareFetchResponse) -> Iterator[float]:
    for topic in answer.responses:
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


async def measure(given: dict[str, str]) -> None:
    with joined(given) as (member, client):
        if given["wait"] == "socket":
            found = await read(given, member, on_socket(client))
        else:
            with in_loop(client) as ask:
                found = await read(given, member, ask)
    say(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(measure(arguments()))
