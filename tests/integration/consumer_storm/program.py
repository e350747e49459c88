"""One process of the storm: it opens consumers, uses them in random ways, and closes them, until it is time to end.

    python -m tests.integration.consumer_storm.program ORDERS DIARY

ORDERS is JSON. What is logged goes to stderr.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import random
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio

from kshare import KshareError
from tests.integration.consumer_storm import async_program, blocking_program
from tests.integration.consumer_storm.defects import plant
from tests.integration.consumer_storm.diary import Diary
from tests.integration.consumer_storm.notes import Notes, Orders

THREADS = 2


def main(orders: Orders, diary: Diary) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    faulthandler.register(signal.SIGUSR1)
    if orders.defect:
        plant(orders.defect)
    if orders.kind == "threads":
        with ThreadPoolExecutor(THREADS) as pool:
            chances = [random.Random(orders.seed * 100 + number) for number in range(THREADS)]
            for result in [pool.submit(_blocking, orders, diary, chance) for chance in chances]:
                result.result()
    else:
        anyio.run(_async, orders, diary, random.Random(orders.seed), backend=orders.kind)


def _blocking(orders: Orders, diary: Diary, chance: random.Random) -> None:
    while not orders.is_over:
        notes = Notes(orders, diary, chance)
        try:
            blocking_program.live(notes)
        except KshareError as error:
            notes.did(f"ended by {type(error).__name__}")
            time.sleep(0.1)


async def _async(orders: Orders, diary: Diary, chance: random.Random) -> None:
    while not orders.is_over:
        notes = Notes(orders, diary, chance)
        try:
            await async_program.live(notes)
        except* KshareError as group:
            for error in group.exceptions:
                notes.did(f"ended by {type(error).__name__}")
            await anyio.sleep(0.1)


if __name__ == "__main__":
    main(Orders(**json.loads(sys.argv[1])), Diary(Path(sys.argv[2])))
