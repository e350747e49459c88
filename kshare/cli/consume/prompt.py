"""Asks how to acknowledge a record, and reads one key. Meanwhile the consumer renews the record's lock.

Questions are written to standard error, so that standard output contains only records.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from kshare.cli.consume.consume_report import PAST, AckName, ConsumeReport
from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.keyboard import key_by_key
from kshare.client.consumer import ShareConsumer
from kshare.client.record import ShareRecord
from kshare.errors import AcknowledgeError, KshareError

_QUESTION = "[a]ccept  [r]elease  re[j]ect  re[n]ew  [q]uit? "
_WORDS: dict[str, AckName] = {"a": "accept", "r": "release", "j": "reject"}
_ENDS = ("q", "", "\x04")
_TOO_LATE = "too late: its lock has expired, and it will be redelivered"


@contextmanager
def prompt(consumer: ShareConsumer, report: ConsumeReport) -> Iterator[Prompt]:
    """Read single keys from the terminal while this is open."""
    if not sys.stdin.isatty():
        raise Failure("--interactive reads keys from a terminal, but standard input isn't one")
    with key_by_key():
        yield Prompt(consumer, report)


class Prompt:
    def __init__(self, consumer: ShareConsumer, report: ConsumeReport) -> None:
        self._consumer = consumer
        self._books = report
        self._terminal = sys.stdin.fileno()

    async def decide(self, record: ShareRecord) -> bool:
        """Returns False if the user quits. The record is then released when the consumer closes."""
        while True:
            _write(_QUESTION)
            key = await self._key()
            if key in _WORDS:
                word = _WORDS[key]
                _write(f"{PAST[word] if self._books.settle(record, word) else _TOO_LATE}\n")
                return True
            if key == "n":
                _write(f"{await self._renew(record)}\n")
            elif key in _ENDS:
                _write("quit: released\n")
                return False
            else:
                _write(f"{key!r} isn't one of these keys\n")

    async def _renew(self, record: ShareRecord) -> str:
        if not self._consumer.can_renew:
            remaining = max(0.0, record.lease_deadline - anyio.current_time())
            return f"this broker can't renew locks (Kafka 4.2 and later can): {remaining:.0f} s are left"
        try:
            record.renew()
            results = await self._consumer.commit()
        except AcknowledgeError:
            return _TOO_LATE
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
