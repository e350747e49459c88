"""A cluster with activity for commands to show: a group with a member, held records, dead letters."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from kshare import ConsumerOptions, sync
from kshare.testing import Broker
from tools.benches.traffic_files import write_segment
from tools.kafka.ports import free_ports

ROOT = Path(__file__).parents[2]
_CAPTURE = ROOT / "tests" / "cli" / "captures" / "ethernet.pcap"
GROUP, TOPIC, GRAVE = "shippers", "orders", "dlq.orders"
APP = "shop:worker"
_ACKNOWLEDGE = (
    "00000060004f00010000000c00026d6500076f72646572731741414543417751464267634943516f4c4441304f4477"
    "0000000302000102030405060708090a0b0c0d0e0f0200000000020000000000000064000000000000006806010102010300000000"
)
"""A ShareAcknowledge request that settles five records."""
_WORDS = {3: "release", 7: "reject"}
"""How records are settled, by offset; all others are accepted."""
_LETTERS = "errors.deadletterqueue."
_ORDERS = 60
_SEGMENT_BYTES = 1_000_000
_EARLIEST = {"share.auto.offset.reset": "earliest"}
_DEADLINE_S = 60.0


@dataclass(frozen=True)
class World:
    """The addresses and files that commands need."""

    bootstrap: str
    listen: str
    """The address on which a proxy may listen; it may use the next ports, too."""
    files: Mapping[str, str]
    """File name, as shown → path; and the name of the app → the one within this package."""


@contextmanager
def world() -> Iterator[World]:
    with TemporaryDirectory(prefix="kshare-screens-") as folder, Broker() as broker:
        broker.create_topic(TOPIC, 2)
        broker.create_topic(GRAVE, 1, {f"{_LETTERS}group.enable": "true"})
        broker.set_group_config(GROUP, {**_EARLIEST, f"{_LETTERS}topic.name": GRAVE})
        for group in ("console", "packers"):
            broker.set_group_config(group, _EARLIEST)
        for partition in (0, 1):
            broker.produce(
                TOPIC, [b"order %d" % number for number in range(_ORDERS // 2)], partition=partition
            )
        with _member(broker.bootstrap):
            yield World(broker.bootstrap, f"127.0.0.1:{free_ports(1)[0]}", _files(Path(folder)))


def _files(folder: Path) -> Mapping[str, str]:
    frame, segment = folder / "ack.hex", folder / "00000000000000000000.log"
    frame.write_text(_ACKNOWLEDGE, encoding="ascii")
    write_segment(segment, _SEGMENT_BYTES)
    return {path.name: str(path) for path in (frame, segment)} | {
        "orders.pcap": str(_CAPTURE),
        APP: f"tools.screens.{APP}",
    }


@contextmanager
def _member(bootstrap: str) -> Iterator[None]:
    """Run a consumer that settles some records, with all acknowledgement types, and then holds the others."""
    holds, is_over = threading.Event(), threading.Event()
    thread = threading.Thread(target=_work, args=(bootstrap, holds, is_over))
    thread.start()
    try:
        if not holds.wait(_DEADLINE_S):
            raise TimeoutError("the member of the group never got its records")
        yield
    finally:
        is_over.set()
        thread.join()


def _work(bootstrap: str, holds: threading.Event, is_over: threading.Event) -> None:
    options: ConsumerOptions = {
        "acknowledgement": "explicit",
        "max_records": 10,
        "acquire": "records",
    }
    with sync.ShareConsumer(
        bootstrap, group=GROUP, topics=[TOPIC], client_id="truck-7", **options
    ) as consumer:
        for settled, record in enumerate(consumer):
            if settled == _ORDERS // 2:
                break
            word = "accept" if record.redelivered else _WORDS.get(record.offset, "accept")
            getattr(record, word)()
        consumer.commit()
        holds.set()
        is_over.wait(_DEADLINE_S * 10)
