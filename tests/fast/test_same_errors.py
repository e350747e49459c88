"""Misuse is told in the same words by both builds: with compiled modules, and with `KSHARE_FAST=0`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MISUSE = """
import asyncio
import contextvars
import copy
import pickle
import re
import threading

from kshare import ShareConsumer, sync
from kshare.client.record import ShareRecord
from kshare.testing import Broker


class Mine(ShareRecord):
    pass


def tell(name, what, *arguments, has_text=True):
    try:
        outcome = f"returned {type(what(*arguments)).__name__}"
    except BaseException as error:
        outcome = f"{type(error).__name__}: {error}" if has_text else type(error).__name__
    print(f"{name}: " + re.sub(r"0x[0-9a-f]+", "0x", outcome))


def in_a_thread(what):
    def call():
        try:
            what()
        except BaseException as error:
            failures.append(error)

    failures = []
    thread = threading.Thread(target=call, name="other")
    thread.start()
    thread.join(30)
    if failures:
        raise failures[0]


def is_not_copied(name, one):
    for how in (copy.copy, copy.deepcopy, pickle.dumps):
        tell(f"{name}, {how.__name__}", how, one)


async def in_task(name, awaitable, context=None):
    async def run():
        return await awaitable

    (done,) = await asyncio.gather(asyncio.create_task(run(), context=context), return_exceptions=True)
    print(f"{name}: {type(done).__name__}: {done}")


async def explicit(settings):
    async with ShareConsumer(acknowledgement="explicit", **settings) as consumer:
        loop = aiter(consumer)
        record = await anext(loop)
        batch = record.batch
        second = next(iter(batch))
        for name in ("accept", "release", "reject", "renew"):
            tell(f"record in another thread, {name}", in_a_thread, getattr(record, name))
            tell(f"batch in another thread, {name}", in_a_thread, getattr(batch, name))
        lease = batch._lease
        for name, one in {"record": record, "batch": batch, "walk": iter(batch), "loop": loop, "lease": lease}.items():
            is_not_copied(name, one)
        for offset in (-1, 10**6):
            tell("stray offset, is_held", lease.is_held, offset)
            tell("stray offset, can_decide", lease.can_decide, offset)
            tell("stray offset, accept_quietly", lease.accept_quietly, offset)
            for call in (lease.decide, lease.decide_quietly, lease.decide_if_held, batch._settle):
                tell(f"stray offset, {call.__name__}", call, offset, 1)
        tell("twice before it is sent", lambda: (record.accept(), record.reject(), record.accept()))
        await consumer.commit()
        for name in ("accept", "release", "reject", "renew"):
            tell(f"sent already, {name}", getattr(record, name))
        tell("rest of a batch", batch.release)
        await consumer.commit()
        tell("settled batch", batch.accept)
        tell("settled record of it", second.accept)
        mine = Mine.__new__(Mine)
        for name in ("topic", "partition", "delivery_count"):
            tell(f"subclass without a batch, {name}", getattr, mine, name, has_text=False)
        tell("subclass without a batch, accept", mine.accept, has_text=False)
        awaited = anext(loop)
        await awaited
        await in_task("awaited twice", awaited)
        left, left_batch = await anext(loop), await consumer.next_batch()
    tell("closed, record", left.accept)
    tell("closed, batch", left_batch.accept)
    await in_task("closed, next", anext(loop))
    await in_task("closed, next batch", consumer.next_batch())


async def implicit(settings):
    async with ShareConsumer(**settings) as consumer:
        shared = contextvars.copy_context()
        for name, loop in {"records": aiter(consumer), "batches": consumer.batches()}.items():
            await asyncio.create_task(take(loop), context=shared)
            await in_task(f"two tasks, {name}", anext(loop))
            await in_task(f"two tasks with one context, {name}", anext(loop), shared)


async def take(loop):
    await anext(loop)


def blocking(settings):
    with sync.ShareConsumer(acknowledgement="explicit", **settings) as consumer:
        loop = iter(consumer)
        record = next(loop)
        is_not_copied("sync loop", loop)
        is_not_copied("sync record", record)
        record.accept()
        consumer.commit()
        tell("sync, sent already", record.reject)
        left = next(loop)
    tell("sync, closed, next", next, loop)
    tell("sync, closed, record", left.accept)
    with sync.ShareConsumer(**settings) as consumer:
        for name, loop in {"records": iter(consumer), "batches": consumer.batches()}.items():
            next(loop)
            tell(f"sync, two threads, {name}", in_a_thread, lambda: next(loop))
            loop.close()
            tell(f"sync, ended, {name}", next, loop)


def main():
    with Broker(topics={"t": 1}) as broker:
        for number, misuse in enumerate((explicit, implicit, blocking)):
            group = f"g{number}"
            broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})
            settings = {"bootstrap_servers": broker.bootstrap, "group": group, "topics": ["t"]}
            for part in range(4):
                broker.produce("t", [b"%d" % number for number in range(10)])
            done = misuse(settings)
            if done is not None:
                asyncio.run(done)


main()
print("all")
"""


def told(fast: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", MISUSE],
        cwd=ROOT,
        env={**os.environ, "KSHARE_FAST": fast},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.endswith("all\n"), done.stdout[-500:] + done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.lengthy
def test_both_builds_refuse_the_same_in_the_same_words() -> None:
    compiled, plain = told("1"), told("0")
    assert len(compiled) > 60
    assert compiled == plain
