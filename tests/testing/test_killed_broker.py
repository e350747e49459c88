"""An embedded broker with a data folder, killed under load: what a client was told still holds afterwards."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from kafka import KafkaProducer

from kshare import AcknowledgeError, ShareConsumer, ShareRecord
from kshare.broker.settings import Resource
from kshare.testing import Broker

pytestmark = pytest.mark.anyio

DEADLINE_S = 60.0
AT_ONCE = 40


@contextmanager
def program(folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "kshare.cli", "broker", "--port", str(port), "--data-dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("listening")
            yield process
        finally:
            process.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def produce(bootstrap: str, first: int) -> None:
    """Each of these is acknowledged to the producer, or this raises."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=0)
    try:
        sent = [producer.send("t", b"%d" % number) for number in range(first, first + AT_ONCE)]
        producer.flush(timeout=DEADLINE_S)
        for future in sent:
            future.get(timeout=0)
    finally:
        producer.close()


class Consuming:
    """What was seen so far, and whose acceptance the broker has confirmed."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.seen: set[int] = set()
        self.confirmed: set[int] = set()

    async def run(self, silence: float = DEADLINE_S) -> None:
        """Accepts records one by one, until none has come for so long."""
        async with ShareConsumer(
            self.bootstrap,
            group="g",
            topics=["t"],
            acknowledgement="explicit",
            max_records=7,
            close_timeout=1.0,
        ) as consumer:
            records = aiter(consumer)
            while True:
                with anyio.move_on_after(silence) as waited:
                    record = await anext(records)
                if waited.cancelled_caught:
                    return
                await self._accept(consumer, record)

    async def _accept(self, consumer: ShareConsumer, record: ShareRecord) -> None:
        number = int(record.value or b"")
        assert number not in self.confirmed, "a record came again whose acceptance was confirmed"
        self.seen.add(number)
        try:
            record.accept()
            if all(error is None for error in (await consumer.commit()).values()):
                self.confirmed.add(number)
        except AcknowledgeError:
            pass


async def test_nothing_acknowledged_is_lost_and_nothing_confirmed_is_forgotten(tmp_path: Path) -> None:
    """A few rounds; for fifty kills see tests/integration/test_killed_embedded.py."""
    rounds = 3
    with Broker(topics={"t": 2}, data_dir=tmp_path) as broker:
        earliest = {"share.auto.offset.reset": "earliest"}
        broker.call(lambda: broker.state.configs.replace(Resource.GROUP, "g", earliest))
    port = free_port()
    consuming = Consuming(f"127.0.0.1:{port}")
    for round_ in range(rounds):
        with program(tmp_path, port) as process, anyio.fail_after(DEADLINE_S):
            await anyio.to_thread.run_sync(produce, consuming.bootstrap, round_ * AT_ONCE)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consuming.run)
                while len(consuming.confirmed) < round_ * AT_ONCE // 2 + AT_ONCE // 4:
                    await anyio.sleep(0.001)
                process.kill()
                tasks.cancel_scope.cancel()
    with program(tmp_path, port), anyio.fail_after(DEADLINE_S):
        await consuming.run(silence=2.0)
    assert consuming.seen == set(range(rounds * AT_ONCE))
    assert len(consuming.confirmed) > len(consuming.seen) * 3 // 4
