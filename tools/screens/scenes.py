"""The commands that are shown, and what happens while they run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kshare import sync
from tests.cli.terminals import Terminal
from tools.screens.world import APP, GRAVE, GROUP, TOPIC, World

_FRAME = re.compile(r"\x1b\[H")
_MODE = re.compile(r"\x1b\[\?\d+[hl]")
_EMPTY = re.compile(r"\n(?: *\n){2,}")
LISTEN = "HOST:PORT"
_SOME = 12

Play = Callable[[Terminal, World], str]
"""Operates a command, and returns what the terminal showed."""


@dataclass(frozen=True)
class Scene:
    """A command. File names in `words`, and LISTEN, are replaced by those of the world."""

    words: Sequence[str]
    play: Play
    lines: int | None = None
    """The maximum number of lines to show."""


def to_its_end(terminal: Terminal, world: World) -> str:
    terminal.end()
    return terminal.text


def traced(terminal: Terminal, world: World) -> str:
    """Run a consumer through the proxy, and then press Ctrl-C."""
    terminal.until("connect to ")
    address = terminal.until("\n").strip()
    with sync.ShareConsumer(address, group="packers", topics=[TOPIC], client_id="bench-1") as consumer:
        for number, _ in enumerate(consumer, 1):
            if number == _SOME:
                break
    terminal.until("leaves")
    terminal.type("\x03")
    terminal.end()
    return terminal.text


def watched(terminal: Terminal, world: World) -> str:
    """Return the last frame of a live screen."""
    terminal.until(GROUP)
    terminal.until(GROUP)
    terminal.type("q")
    terminal.end()
    frames = _FRAME.split(terminal.text)
    frame = next(frame for frame in reversed(frames) if GROUP in frame)
    return _EMPTY.sub("\n\n", _MODE.sub("", frame))


def served(terminal: Terminal, world: World) -> str:
    """Wait until a server says where it listens, and press Ctrl-C."""
    terminal.until("http://")
    terminal.until("\n")
    terminal.type("\x03")
    terminal.end()
    return terminal.text


SCENES = (
    Scene(["--help"], to_its_end),
    Scene(["decode", "ack.hex"], to_its_end),
    Scene(["decode", "--hex", "ack.hex"], to_its_end, lines=30),
    Scene(["decode", "--summary", "00000000000000000000.log"], to_its_end),
    Scene(
        ["encode", '{"message": "ShareSnapshotKey", "version": 0, "body": {"groupId": "orders"}}'],
        to_its_end,
    ),
    Scene(["trace", "--listen", LISTEN], traced),
    Scene(["pcap", "orders.pcap", "--group", GROUP], to_its_end),
    Scene(["topics", "list"], to_its_end),
    Scene(["groups", "list"], to_its_end),
    Scene(["spark", "journal", "inspect"], to_its_end),
    Scene(["groups", "describe", GROUP, "--offsets", "--members"], to_its_end),
    Scene(["groups", "config", "show", GROUP], to_its_end),
    Scene(["lag"], to_its_end),
    Scene(["top"], watched),
    Scene(["top", "--view", "partitions"], watched),
    Scene(["top", "--view", "members"], watched),
    Scene(["exporter", "--listen", LISTEN], served),
    Scene(["produce", "--topic", "parcels", "--count", "1000", "--size", "100"], to_its_end),
    Scene(["consume", "--topic", TOPIC, "--group", "console", "--max-messages", "5"], to_its_end),
    Scene(["state", GROUP], to_its_end),
    Scene(["dlq", "list"], to_its_end),
    Scene(["dlq", "show", GRAVE], to_its_end),
    Scene(["dlq", "drop", GRAVE, "--all", "--dry-run"], to_its_end),
    Scene(["doctor"], to_its_end),
    Scene(["web", "--listen", LISTEN], served),
    Scene(["worker", "check", APP, "--workers", "4"], to_its_end),
)
