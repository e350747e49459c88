"""Commands with a broker that accepts no connection or never responds to end with a one-line reason and exit code 1."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.cli.running import assert_refused, kshare
from tests.fakes.wall import Wall


@contextmanager
def _mute() -> Iterator[str]:
    """Accepts connections, but never responds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield "{}:{}".format(*listener.getsockname())


@contextmanager
def _wall() -> Iterator[str]:
    with Wall() as wall:
        yield wall.text


@pytest.mark.lengthy
@pytest.mark.parametrize("listener", [_mute, _wall], ids=["never responds", "accepts nothing"])
@pytest.mark.parametrize(
    "command",
    [
        ("groups", "list"),
        ("groups", "describe", "g"),
        ("consume", "-t", "orders", "-g", "g"),
        ("dlq", "list"),
    ],
    ids=" ".join,
)
def test_command_ends_and_says_why(
    tmp_path: Path, listener: Callable[[], AbstractContextManager[str]], command: tuple[str, ...]
) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("request.timeout.ms=500\n")
    with listener() as where:
        done = kshare(*command, "-b", where, "--command-config", str(properties))
    assert_refused(done, 1, f"can't reach {where}: not connected within 0.")
