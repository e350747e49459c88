"""The broker's own log: a client that repeatedly sends invalid data doesn't flood it."""

from __future__ import annotations

import logging
import re
import socket

import pytest

from kshare.testing import Broker


@pytest.mark.lengthy
def test_repeated_invalid_frames_are_logged_a_few_times(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kshare.broker"), Broker() as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        for _ in range(50):
            with socket.create_connection((host, int(port)), timeout=10) as client:
                client.sendall(b"GET / HTTP/1.1\r\n\r\n")
                assert client.recv(1) == b""
    assert 2 <= len(caplog.messages) <= 4
    assert "127.0.0.1 sent an invalid frame" in caplog.messages[0]
    times = (re.search(r"\((\d+) times, the latest\)", line) for line in caplog.messages)
    assert sum(int(found[1]) if found else 1 for found in times) == 50
