"""A real Redis server, and every store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import ConnectionError as RedisConnectionError
from redis import Redis

from tests.idempotency.harnesses import KINDS, Harness, harness, redis_harness
from tools import redis_server

_DEADLINE_S = 60.0


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    process, url = redis_server.start(tmp_path_factory.mktemp("redis"))
    client = Redis.from_url(url)
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        try:
            client.ping()
            break
        except RedisConnectionError:
            assert not process.has_ended, process.log.read_text()
            assert time.monotonic() < deadline, "redis-server doesn't respond"
            time.sleep(0.01)
    client.close()
    yield url
    process.stop()


@pytest.fixture(params=[*KINDS, pytest.param("redis", marks=pytest.mark.redis)])
def every_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    if request.param == "redis":
        with redis_harness(request.getfixturevalue("redis_url")) as made:
            yield made
    else:
        with harness(request.param, tmp_path) as made:
            yield made
