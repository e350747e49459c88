"""Reads single keys from a terminal, without Enter. Restores the terminal afterwards."""

from __future__ import annotations

import os
import re
import sys
import termios
import tty
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import anyio

_NAMES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1bOC": "right",
    "\x1bOD": "left",
    "\x1b[5~": "pageup",
    "\x1b[6~": "pagedown",
}
_KEY = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])|.", re.DOTALL)


@contextmanager
def key_by_key() -> Iterator[None]:
    """While this is open, keys are available without Enter. Ctrl-C still interrupts."""
    previous = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin.fileno())
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, previous)


async def keys() -> AsyncIterator[str]:
    """Yield characters, and names of keys such as `up`. Ends when the terminal is closed."""
    while True:
        await anyio.wait_readable(sys.stdin)
        try:
            pressed = os.read(sys.stdin.fileno(), 64).decode(errors="replace")
        except OSError:  # on Linux: the terminal is gone
            return
        if not pressed:
            return
        for key in _KEY.findall(pressed):
            yield _NAMES.get(key, key)
