"""A store in Redis: `pip install '.[redis]'`.

Uses the blocking client in threads, because redis-py's asynchronous one doesn't run on trio. Each step is a script,
which Redis runs atomically. Entries expire by Redis's own clock. The rules are those of `entry.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kshare.errors import StoreFailed
from kshare.idempotency.store import CLAIMED, ClaimResponse, ClaimState
from kshare.idempotency.threads import in_store_thread
from kshare.installation import extra

with extra("redis", __name__):
    from redis import Redis, RedisError
    from redis.backoff import NoBackoff
    from redis.retry import Retry

__all__ = ["RedisStore"]

_DEADLINE_S = 5.0
_PATIENCE_S = 10.0
"""How long a call waits for a thread."""
_RETRIES = 1
"""Connections may have been closed while they weren't used."""

# A value is "P" and the owner while a call is in progress; afterwards it is "D", the owner and the result. A script
# that is sent twice, because the response to the first got lost, changes nothing.
_OWNER = slice(1, 33)
_CLAIM = """
local value = redis.call('GET', KEYS[1])
if not value or value == 'P' .. ARGV[1] then
    redis.call('SET', KEYS[1], 'P' .. ARGV[1], 'PX', ARGV[2])
    return {}
end
return {value, redis.call('PTTL', KEYS[1])}
"""
_FINISH = """
local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 2, 33) ~= ARGV[1] then
    return 0
end
redis.call('SET', KEYS[1], 'D' .. ARGV[1] .. ARGV[2], 'PX', ARGV[3])
return 1
"""
_ABANDON = """
if redis.call('GET', KEYS[1]) == 'P' .. ARGV[1] then
    redis.call('DEL', KEYS[1])
end
"""


class RedisStore:
    """Keeps claims and results in Redis, or a server that speaks its protocol and runs Lua scripts.

    `url` is that of redis-py, such as `rediss://user:password@host:6379/0`. All keys begin with `prefix`.
    """

    def __init__(self, url: str, *, prefix: str = "kshare:idempotency:") -> None:
        self._prefix = prefix
        self._client = Redis.from_url(
            url,
            socket_timeout=_DEADLINE_S,
            socket_connect_timeout=_DEADLINE_S,
            retry=Retry(NoBackoff(), _RETRIES),
        )
        self._claim = self._client.register_script(_CLAIM)
        self._finish = self._client.register_script(_FINISH)
        self._abandon = self._client.register_script(_ABANDON)

    async def claim(self, key: str, owner: str, seconds: float) -> ClaimResponse:
        found = await self._run(self._claim, key, owner, _milliseconds(seconds))
        if not found:
            return CLAIMED
        value, left_ms = found
        if value[:1] == b"D":
            return ClaimResponse(ClaimState.DONE, result=value[_OWNER.stop :])
        return ClaimResponse(ClaimState.IN_PROGRESS, expires_in=left_ms / 1000)

    async def finish(self, key: str, owner: str, result: bytes, seconds: float) -> bool:
        return bool(await self._run(self._finish, key, owner, result, _milliseconds(seconds)))

    async def abandon(self, key: str, owner: str) -> None:
        await self._run(self._abandon, key, owner)

    async def purge(self) -> int:
        """Redis deletes expired entries itself."""
        return 0

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    async def _run(self, script: Callable[..., Any], key: str, *arguments: str | bytes | int) -> Any:
        deadline = time.monotonic() + _PATIENCE_S

        def execute() -> Any:
            if time.monotonic() > deadline:
                raise StoreFailed(
                    f"RedisStore: nothing was sent within {_PATIENCE_S:g} s, because other calls still wait for Redis: "
                    "it is slow, or can't be reached.",
                    is_open=False,
                )
            return script(keys=[self._prefix + key], args=arguments)

        try:
            return await in_store_thread(execute)
        except RedisError as error:
            raise StoreFailed(
                f"RedisStore: Redis failed ({type(error).__name__}). Nothing counts as done; the exception below says "
                "why."
            ) from error


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
