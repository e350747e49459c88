"""Passwords in requests that aren't whole, or not quite what they should be, are masked, too."""

from __future__ import annotations

import struct

import pytest

from kshare.web.loaded_input import HintTexts, LoadedMessage, pasted

PASSWORD = b"correct horse battery"
TOKEN = b"\0alice\0" + PASSWORD


def login(version: int = 2, client_id: bytes = b"me", key: int = 36) -> bytes:
    header = (
        key.to_bytes(2, "big")
        + version.to_bytes(2, "big", signed=True)
        + bytes(4)
        + len(client_id).to_bytes(2, "big")
    )
    return header + client_id + b"\0" + bytes([len(TOKEN) + 1]) + TOKEN + b"\0"


def sized(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


HANDSHAKE = sized(struct.pack(">hhih", 17, 0, 9, 2) + b"me\0\x05PLAIN")
HANDSHAKE_RESPONSE = sized(struct.pack(">ihi", 9, 0, 1) + b"\0\x05PLAIN")
METADATA = sized(struct.pack(">hhih", 3, 1, 10, 2) + b"me\xff\xff\xff\xff")


@pytest.mark.lengthy
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
        sized(login(version=32)),
        login(version=200),
        b"\x07" + sized(login(version=-3)),
        HANDSHAKE + sized(TOKEN),
        HANDSHAKE[4:] + sized(TOKEN),
        b"\x07" + HANDSHAKE + sized(TOKEN),
        (HANDSHAKE + sized(TOKEN))[:-3],
        METADATA + HANDSHAKE + sized(TOKEN) + METADATA,
        HANDSHAKE + HANDSHAKE_RESPONSE + sized(TOKEN),
        HANDSHAKE + sized(b"n,,n=alice") + sized(TOKEN),
    ],
    ids=[
        *(
            "whole",
            "bare",
            "cut",
            "bare and cut",
            "stray byte",
            "version",
            "long id",
            "long and cut",
            "scram",
        ),
        *("version 32", "bare version 200", "stray byte and negative version"),
        *(
            "raw token",
            "bare and raw",
            "stray byte and raw",
            "raw and cut",
            "raw among others",
            "raw and response",
        ),
        "two raw tokens",
    ],
)
def test_a_password_is_masked_whatever_is_wrong_with_its_request(data: bytes) -> None:
    found = pasted(data.hex(), HintTexts())
    assert isinstance(found, LoadedMessage)
    assert PASSWORD[:8] not in found.data
    assert found.is_masked, "it would become part of the page's address"


@pytest.mark.lengthy
def test_what_comes_after_a_raw_token_is_read_again() -> None:
    found = pasted((HANDSHAKE + sized(TOKEN) + METADATA).hex(), HintTexts())
    assert isinstance(found, LoadedMessage)
    assert found.data == HANDSHAKE + sized(b"*" * len(TOKEN)) + METADATA
    again = pasted(found.data.hex(), HintTexts())
    assert isinstance(again, LoadedMessage)
    assert again.data == found.data


@pytest.mark.parametrize("version", [0, 1])
def test_a_handshake_alone_has_no_secrets(version: int) -> None:
    data = sized(struct.pack(">hhih", 17, version, 9, 2) + b"me\0\x05PLAIN") + METADATA
    found = pasted(data.hex(), HintTexts())
    assert isinstance(found, LoadedMessage)
    assert not found.is_masked


def test_the_length_of_an_id_is_not_taken_for_a_header() -> None:
    """36 characters, as ids of members have, in a request that is cut."""
    topic = sized(struct.pack(">hhihHH", 76, 1, 9, 36, 0x3132, 0x3334) + b"0123456789abcdef" * 2 + bytes(9))
    found = pasted(topic[:-3].hex(), HintTexts())
    assert isinstance(found, LoadedMessage)
    assert not found.is_masked
