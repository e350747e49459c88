"""A worker that processes one record and then asks its own process to stop."""

import os
import signal
import sys

from kshare.worker import Worker

worker = Worker(os.environ["KSHARE_BOOTSTRAP_SERVER"], group="shippers")


@worker.handler("orders")
async def ship(order: str) -> None:
    sys.stdout.write(f"shipped {order}\n")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    worker.run(backend="trio" if "trio" in sys.argv else "asyncio")
