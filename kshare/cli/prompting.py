"""A question about a record, answered by one key. While it waits the record's lease is renewed, by the consumer.

Decides what each key means. Questions go to standard error, so that records alone go where standard output goes.
"""

from __future__ import annotations

import os
import sys
import termios
import tty
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio

from kshare.cli.failure import Failure
from kshare.client.consumer import ShareConsumer
from kshare.client.record import ShareRecord
from kshare.errors import AcknowledgeError, KshareError

if TYPE_CHECKING:
    from kshare.cli.consuming import Books, Word

_QUESTION = "[a]ccept  [r]elease  re[j]ect  re[n]ew  [q]uit? "
_WORDS: dict[str, Word] = {"a": "accept", "r": "release", "j": "reject"}
_ENDS = ("q", "", "\x04")
_SAID = {"accept": "accepted", "release": "released", "reject": "rejected"}


class Prompt:
    """The terminal gives single keys while this is open."""

    def __init__(self, consumer: ShareConsumer, books: Books) -> None:
        self._consumer = consumer
        self._books = books
        self._terminal = sys.stdin.fileno()
        self._usual: list[Any] = []

    def __enter__(self) -> Self:
        if not os.isatty(self._terminal):
            raise Failure("--interactive reads keys from a terminal: standard input is none")
        self._usual = termios.tcgetattr(self._terminal)
        tty.setcbreak(self._terminal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._usual)

    async def decide(self, record: ShareRecord) -> bool:
        """False: no further ones. The record is then given back when the consumer closes."""
        while True:
            _write(_QUESTION)
            key = await self._key()
            if key in _WORDS:
                late = self._books.late
                self._books.settle(record, _WORDS[key])
                too_late = "too late: its lock had run out, and it comes again"
                _write(f"{_SAID[_WORDS[key]] if self._books.late == late else too_late}\n")
                return True
            if key == "n":
                _write(f"{await self._renew(record)}\n")
            elif key in _ENDS:
                _write("given back\n")
                return False
            else:
                _write("\n")

    async def _renew(self, record: ShareRecord) -> str:
        if not self._consumer.can_renew:
            left = max(0.0, record.lease_deadline - anyio.current_time())
            return f"this broker can't renew locks (Kafka 4.2 can): {left:.0f} s are left"
        try:
            record.renew()
            results = await self._consumer.commit()
        except AcknowledgeError:
            return "too late: its lock had run out, and it comes again"
        except KshareError as error:
            return str(error)
        refused = results.get((record.topic, record.partition))
        if refused is not None:
            return f"refused: {refused}"
        return f"renewed: locked for {max(0.0, record.lease_deadline - anyio.current_time()):.0f} s more"

    async def _key(self) -> str:
        await anyio.wait_readable(self._terminal)
        return os.read(self._terminal, 1).decode("ascii", "replace").lower()


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
