"""The console and the exporter beside topics whose batches become far more than they seem to be.

The figures of other groups stay, and memory is bounded, however many look at such records at the same time.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import anyio
import pytest

from kshare import AdminClient
from kshare.protocol.compression import Compression
from kshare.testing import Broker
from tests.fakes.bombs import MIB, append, bomb, damaged, many_headers
from tests.helpers.http_pages import page
from tests.helpers.memory import most_mib

pytestmark = pytest.mark.lengthy

PARTITIONS = 8
CODECS = [codec for codec in Compression if codec]
SIZES = {Compression.SNAPPY: 15}
"""In MiB. Snappy shrinks zeros to a twentieth, and brokers take batches of a mebibyte."""
MOST_MIB = 300
PAGES = (
    "/",
    "/group?name=attacked",
    "/records/topic?topic=attacked",
    "/records/topic?topic=attacked&value=x",
    "/records/record?topic=attacked&partition=0&offset=0",
    "/dead-letters",
    "/dead-letters/topic?topic=dlq.attacked",
)
ROUNDS = 4
"""What is left behind by one may add up."""
DEADLINE_S = 60.0


def attack(broker: Broker) -> None:
    """All records of `attacked` and its dead letters are bombs, or damaged. Those of `healthy` are as usual."""
    for topic, count in (("attacked", PARTITIONS), ("healthy", PARTITIONS), ("dlq.attacked", 1)):
        broker.create_topic(topic, count)
    for partition in range(PARTITIONS):
        broker.produce("healthy", [b"x"] * 3, partition=partition)
        for codec in CODECS:
            append(broker, "attacked", bomb(SIZES.get(codec, 160) * MIB, codec), partition)
        append(broker, "attacked", damaged(), partition)
    for codec in CODECS:
        append(broker, "dlq.attacked", bomb(SIZES.get(codec, 160) * MIB, codec))
    headers = many_headers(5_000_000)
    for topic in ("attacked", "dlq.attacked"):
        append(broker, topic, headers)
    broker.set_group_config("attacked", {"errors.deadletterqueue.topic.name": "dlq.attacked"})

    async def start_groups() -> None:
        async with AdminClient(broker.bootstrap) as admin:
            for name in ("attacked", "healthy"):
                starts = {(name, partition): 0 for partition in range(PARTITIONS)}
                await admin.alter_share_group_offsets(name, starts)

    anyio.run(start_groups)


@contextmanager
def serving(command: str, broker: Broker) -> Iterator[tuple[str, int]]:
    """The address that the command prints, and its process id."""
    arguments = ["-b", broker.bootstrap, "--listen", "127.0.0.1:0", "--interval", "1"]
    with subprocess.Popen(
        [sys.executable, "-m", "kshare", command, *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1], process.pid
        finally:
            process.terminate()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_memory_is_bounded_and_other_groups_keep_their_figures(kshare_broker: Broker) -> None:
    attack(kshare_broker)
    with (
        serving("exporter", kshare_broker) as (metrics, exporter),
        serving("web", kshare_broker) as (url, web),
    ):
        console = url.rstrip("/")
        until(lambda: "kshare_exporter_up 1" in page(metrics)[1] and page(console)[0] == 200)
        for _ in range(ROUNDS):
            with ThreadPoolExecutor(3 * len(PAGES)) as visitors:
                seen = list(visitors.map(lambda path: page(console + path), 3 * PAGES))
            # 404: the record can't be read. 503: others took too long.
            assert {status for status, _ in seen} <= {200, 404, 503}
        assert page(f"{console}/health")[0] == 200
        assert "24" in page(f"{console}/group?name=healthy")[1]
        said = page(metrics)[1]
        assert "kshare_exporter_up 1" in said
        assert 'kshare_group_lag_records{group="healthy"} 24' in said
        assert 'kshare_group_oldest_unsettled_seconds{group="healthy"}' in said
        assert 'kshare_group_oldest_unsettled_seconds{group="attacked"}' not in said
        assert most_mib(web) < MOST_MIB
        assert most_mib(exporter) < MOST_MIB
