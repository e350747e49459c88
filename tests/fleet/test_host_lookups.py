"""Names that are looked up slowly hold up nothing but themselves."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from kshare.fleet import asking
from kshare.fleet.allowed_hosts import FOR_OTHERS, AllowedHosts
from kshare.fleet.asking import ask_all
from kshare.fleet.host_lookups import HostLookups
from kshare.fleet.no_status import NoStatus, Why
from kshare.worker.watch.status import ProcessStatus
from kshare.worker.watch.status_url import StatusUrl
from tests.fleet.pages import json_response, serving

pytestmark = pytest.mark.anyio

_MANY = 100


class SlowNames:
    """Names that end with .slow.test are looked up until this is closed."""

    def __init__(self) -> None:
        self.most = 0
        self.end = threading.Event()
        self._now = 0
        self._lock = threading.Lock()
        self._real = socket.getaddrinfo

    def __call__(self, host: str | bytes, *options: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if not name.endswith(".slow.test"):
            return self._real(host, *options, **named)
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self.end.wait()
        with self._lock:
            self._now -= 1
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowNames]:
    names = SlowNames()
    monkeypatch.setattr(socket, "getaddrinfo", names)
    monkeypatch.setattr(asking, "_LOOKUPS", HostLookups(5))
    yield names
    names.end.set()


@pytest.mark.lengthy
async def test_slow_names_do_not_hold_up_others(anyio_backend: str, slow: SlowNames) -> None:
    """Neither a process whose URL is given, nor other lookups of the same loop."""
    urls = [(StatusUrl("http", f"w{number}.slow.test", 80), FOR_OTHERS) for number in range(_MANY)]
    async with serving(json_response()) as url:
        given = StatusUrl("http", "localhost", url.port)
        told = await ask_all([*urls, (given, None)], limit_s=1.0)
    assert isinstance(told[given], ProcessStatus)
    assert {answer.why for answer in told.values() if isinstance(answer, NoStatus)} == {Why.TIMED_OUT}
    with anyio.fail_after(5):
        await anyio.getaddrinfo("localhost", 80)
    assert slow.most == 5, "lookups that were given up count until they end"


async def test_announced_hosts_are_found(anyio_backend: str) -> None:
    async with serving(json_response()) as url:
        announced = StatusUrl("http", "localhost", url.port)
        told = await ask_all([(announced, AllowedHosts.parse(["127.0.0.0/8"]))])
    assert isinstance(told[announced], ProcessStatus)


async def test_a_name_that_is_not_known(anyio_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    lookups = HostLookups(1)
    for _ in range(3):
        with pytest.raises(socket.gaierror):
            await lookups.addresses("shop-1", 80)
