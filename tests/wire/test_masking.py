"""Passwords in requests that aren't whole, or not quite what they should be, are masked, too."""

from __future__ import annotations

import pytest

from kshare.web.loaded_input import HintTexts, LoadedMessage, pasted

PASSWORD = b"correct horse battery"
TOKEN = b"\0alice\0" + PASSWORD


def login(version: int = 2, client_id: bytes = b"me", key: int = 36) -> bytes:
    header = (
        key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + len(client_id).to_bytes(2, "big")
    )
    return header + client_id + b"\0" + bytes([len(TOKEN) + 1]) + TOKEN + b"\0"


def sized(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


@pytest.mark.parametrize(
    "data",
    [
        sized(login()),
        login(),
        sized(login())[:-3],
        login()[:-1],
        b"\x07" + sized(login()),
        sized(login(version=7)),
        sized(login(client_id=b"c" * 3000)),
        sized(login(client_id=b"c" * 300))[4:-9],
        sized(login(key=51)),
    ],
    ids=["whole", "bare", "cut", "bare and cut", "stray byte", "version", "long id", "long and cut", "scram"],
)
def test_a_password_is_masked_whatever_is_wrong_with_its_request(data: bytes) -> None:
    found = pasted(data.hex(), HintTexts())
    assert isinstance(found, LoadedMessage)
    assert PASSWORD[:8] not in found.data
    assert found.is_masked, "it would become part of the page's address"
