"""Looks up the addresses of hosts that others have named, a few at a time, in threads of its own.

The names may be anybody's, and whoever responses for them may take long: lookups that use the threads of the event loop
would hold up all other lookups of the process. A lookup can't be ended, so its thread counts until the lookup returns.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future

import anyio

_AT_ONCE = 32
_SHORTEST_LOOK_S, _LONGEST_LOOK_S = 0.001, 0.05


class HostLookups:
    def __init__(self, at_once: int = _AT_ONCE) -> None:
        self._free = threading.Semaphore(at_once)

    async def addresses(self, host: str, port: int) -> list[str]:
        """Raises OSError or UnicodeError if the name isn't known. The caller limits the time."""
        await _until(lambda: self._free.acquire(blocking=False))
        found: Future[list[str]] = Future()
        # A daemon, so that the process can end.
        threading.Thread(
            target=self._look_up, args=(host, port, found), name="host lookup", daemon=True
        ).start()
        await _until(found.done)
        return found.result()

    def _look_up(self, host: str, port: int, found: Future[list[str]]) -> None:
        try:
            responses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.set_result([str(address[0]) for *_, address in responses])
        except Exception as problem:
            found.set_exception(problem)
        finally:
            self._free.release()


async def _until(is_so: Callable[[], bool]) -> None:
    look_s = _SHORTEST_LOOK_S
    while not is_so():
        await anyio.sleep(look_s)
        look_s = min(2 * look_s, _LONGEST_LOOK_S)
