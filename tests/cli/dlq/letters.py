"""Writes dead letters as a 4.4 broker does and as other programs do, and asks `kshare dlq` for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kshare.testing import Broker
from tests.cli.running import Kshare
from tests.helpers.lost_records import lose
from tests.helpers.rejecting import reject

GRAVE, GROUP = "dlq.orders", "packers"
"""The group has read orders."""
SETTINGS = "errors.deadletterqueue."
_HEADER = "__dlq.errors."


def bury(broker: Broker, count: int, group: str = "shippers", *, copies: bool = False) -> None:
    """Let the group reject records of orders[1], each with its own header, so that the broker writes dead letters."""
    settings = {f"{SETTINGS}topic.name": GRAVE, "share.auto.offset.reset": "earliest"}
    broker.set_group_config(group, settings | {f"{SETTINGS}copy.record.enable": str(copies).lower()})
    values = [b"value %d" % number for number in range(count)]
    broker.produce("orders", values, partition=1, key=b"k", headers=[("own", b"header")])
    reject(broker.bootstrap, group, "orders", count)


def letter(
    broker: Broker, value: bytes | None, origin: tuple[str, int, int] | None = None, at: int = 0, **more: str
) -> None:
    """Write a dead letter of GROUP, unless another is named, to partition `at`, as another program might.

    Its record no longer exists, if it wasn't written before.
    """
    if origin is not None and origin[0] != GRAVE:
        lose(broker, *origin[:2], origin[2] + 1)
    broker.produce(GRAVE, [value], partition=at, headers=context(origin, {"group": GROUP, **more}))


def context(origin: tuple[str, int, int] | None, more: Mapping[str, str]) -> list[tuple[str, bytes]]:
    said = dict(zip(("topic", "partition", "offset"), map(str, origin), strict=True)) if origin else {}
    return [
        (f"{_HEADER}{name.replace('_', '.')}", text.encode()) for name, text in (said | dict(more)).items()
    ]


def letters_of(run: Kshare, *words: str) -> list[dict[str, Any]]:
    done = run("dlq", "show", GRAVE, *words, "--json")
    assert (done.code, done.err) == (0, "")
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def redriven(run: Kshare, *words: str, code: int = 0) -> dict[str, Any]:
    done = run("dlq", "redrive", GRAVE, *words, "--json")
    assert done.code == code, done
    assert bool(done.err) == bool(code)
    found: dict[str, Any] = json.loads(done.out)
    return found


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [None if record.value is None else bytes(record.value) for record in broker.records(topic)]
