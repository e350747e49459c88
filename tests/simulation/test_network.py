"""The simulated network: bytes arrive in order, later and in part, and cut connections are noticed on both sides."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio
import pytest

from tests.simulation.loop import SimulatedTime
from tests.simulation.network import ClientStream, Conditions, ProcessNetwork, ServerStream, SimulatedNetwork
from tests.simulation.tap import Tap

ADDRESS = ("10.0.0.1", 9092)


def run(main: Any) -> None:
    SimulatedTime("asyncio", 7).run(main)


def frame(text: bytes) -> bytes:
    """A request or response of no kind that the tap reads."""
    body = b"\0\x03\0\0" + b"\0\0\0\x07" + text
    return len(body).to_bytes(4, "big") + body


@asynccontextmanager
async def connected(
    conditions: Conditions,
) -> AsyncIterator[tuple[SimulatedNetwork, ProcessNetwork, ClientStream, ServerStream]]:
    async with anyio.create_task_group() as tasks:
        network = SimulatedNetwork(Random(1), conditions, tasks, Tap)
        served: list[Any] = []

        async def serve(stream: Any) -> None:
            served.append(stream)

        listener = await network.listen(*ADDRESS)
        tasks.start_soon(listener.serve, serve, tasks)
        process = ProcessNetwork(network, "client")
        client: Any = await process.connect(*ADDRESS)
        await anyio.sleep(1.0)
        yield network, process, client, served[0]
        tasks.cancel_scope.cancel()


def test_bytes_arrive_in_order_however_long_each_part_takes() -> None:
    async def main() -> None:
        sent = b"".join(frame(bytes([number]) * 100) for number in range(200))
        conditions, got = Conditions((0.0, 0.5), capacity=1_000), b""
        async with connected(conditions) as (_, _, client, server), anyio.create_task_group() as tasks:
            tasks.start_soon(client.send, sent)
            while len(got) < len(sent):
                got += await server.receive(333)
        assert got == sent

    run(main)


def test_nobody_sends_more_than_there_is_room_for() -> None:
    async def main() -> None:
        async with connected(Conditions(capacity=10)) as (_, _, client, server):
            assert bytes(client.send_now(b"0123456789abc")) == b"abc"
            assert bytes(client.send_now(b"abc")) == b"abc"
            assert await server.receive(4) == b"0123"
            assert bytes(client.send_now(b"abc")) == b""

    run(main)


def test_both_sides_notice_a_cut() -> None:
    async def main() -> None:
        async with connected(Conditions()) as (network, _, client, server):
            network.links[0].cut()
            with pytest.raises(ConnectionResetError):
                client.receive_now(memoryview(bytearray(4)))
            with pytest.raises(BrokenPipeError):
                client.send_now(b"x")
            with pytest.raises(anyio.BrokenResourceError):
                await server.receive()
            with pytest.raises(anyio.BrokenResourceError):
                await server.send(frame(b"x"))
            assert network.links == []

    run(main)


def test_a_closed_connection_ends_after_what_was_sent() -> None:
    async def main() -> None:
        async with connected(Conditions()) as (_, _, client, server):
            await client.send(b"last")
            await client.aclose()
            assert await server.receive() == b"last"
            with pytest.raises(anyio.EndOfStream):
                await server.receive()

    run(main)


def test_a_killed_process_has_no_connection_and_gets_none() -> None:
    async def main() -> None:
        async with connected(Conditions()) as (_, process, client, _):
            process.kill()
            with pytest.raises(BrokenPipeError):
                client.send_now(b"x")
            with pytest.raises(ConnectionRefusedError):
                await process.connect(*ADDRESS)

    run(main)


def test_nobody_listens() -> None:
    async def main() -> None:
        async with connected(Conditions()) as (_, process, _, _):
            with pytest.raises(ConnectionRefusedError):
                await process.connect(ADDRESS[0], 1)

    run(main)


def test_nothing_arrives_over_a_connection_that_stalls() -> None:
    async def main() -> None:
        async with connected(Conditions()) as (network, _, client, server):
            network.links[0].stall(5.0, up=True, down=False)
            began = anyio.current_time()
            await client.send(b"late")
            assert await server.receive() == b"late"
            assert anyio.current_time() == pytest.approx(began + 5.0)

    run(main)


def test_connections_are_refused_for_a_while() -> None:
    async def main() -> None:
        async with connected(Conditions()) as (network, process, _, _):
            network.refuses_until = anyio.current_time() + 1.0
            with pytest.raises(ConnectionRefusedError):
                await process.connect(*ADDRESS)
            await anyio.sleep(1.0)
            await process.connect(*ADDRESS)

    run(main)


def test_a_listener_that_is_closed_again_leaves_the_next_one_at_its_address() -> None:
    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            network = SimulatedNetwork(Random(1), Conditions((0.0, 0.1), capacity=1_000), tasks, Tap)
            former = await network.listen(*ADDRESS)
            await former.aclose()
            await network.listen(*ADDRESS)
            await former.aclose()
            await ProcessNetwork(network, "client").connect(*ADDRESS)
            tasks.cancel_scope.cancel()

    run(main)
