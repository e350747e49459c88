"""Nodes of a cluster that return their names, hang up or never response, and a pool that asks them."""

from __future__ import annotations

from contextlib import suppress

import anyio

from kshare.net.addresses import Address, format_address
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.messages import (
    MetadataRequest,
    MetadataResponse,
)
from tests.fakes.peer import Conversation, Script


def naming(name: str, greeted: list[str] | None = None) -> Script:
    """A broker that returns its name as the cluster id."""

    async def script(talk: Conversation) -> None:
        await talk.greet()
        if greeted is not None:
            greeted.append(name)
        while True:
            header, _ = await talk.request(MetadataRequest)
            await talk.response(header, MetadataResponse(cluster_id=name))

    return script


async def silent(talk: Conversation) -> None:
    await talk.greet()
    await talk.silence()


async def hanging_up(talk: Conversation) -> None:
    await talk.greet()
    await talk.request(MetadataRequest)


async def name_of(
    pool: Pool, node: int | None, purpose: str = "", timeout: float | None = None
) -> str | None:
    return (await pool.ask(node, MetadataRequest([]), purpose=purpose, timeout=timeout)).cluster_id


def many(*addresses: Address, **options: float) -> NetSettings:
    return NetSettings.parse(map(format_address, addresses), **options)


async def mute(talk: Conversation) -> None:
    """Accepts connections, and never responds."""
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            await talk.stream.receive()
