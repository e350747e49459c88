"""A function that runs once, with its results in the Redis of the environment variable `REDIS_URL`."""

import os

from kshare.idempotency import idempotent
from kshare.idempotency.redis import RedisStore

store = RedisStore(os.environ["REDIS_URL"])
charged: list[str] = []


@idempotent(store, key=lambda order: order)
def charge(order: str) -> str:
    charged.append(order)
    return f"receipt for {order}"


assert charge("order 7") == charge("order 7") == "receipt for order 7"
assert charged == ["order 7"]
store.close()
