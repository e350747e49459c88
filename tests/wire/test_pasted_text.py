"""Text formats that are recognized: hex, base64, escapes, and dumps of other programs."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.errors import ConfigError
from kshare.wire.pasted_text import from_file, from_text
from tests.cli import frames
from tests.cli.dumps import dump

FRAME = frames.fetch_request()


@pytest.mark.parametrize(
    "text",
    [
        FRAME.hex(),
        FRAME.hex().upper(),
        "0x" + FRAME.hex(),
        FRAME.hex(" "),
        FRAME.hex(":"),
        ", ".join(f"0x{byte:02x}" for byte in FRAME),
        "\n".join(FRAME[at : at + 16].hex(" ") for at in range(0, len(FRAME), 16)),
        base64.b64encode(FRAME).decode(),
        base64.urlsafe_b64encode(FRAME).decode().rstrip("="),
        base64.encodebytes(FRAME).decode(),
        repr(FRAME),
        "".join(f"\\x{byte:02x}" for byte in FRAME),
        repr(FRAME)[1:],
        dump(FRAME),
    ],
)
def test_text_format_is_recognized(text: str) -> None:
    assert from_text(text, None) == FRAME


@given(st.binary(min_size=1, max_size=40))
def test_named_codings_are_decoded(data: bytes) -> None:
    assert from_text(data.hex(), "hex") == data
    assert from_text(base64.b64encode(data).decode(), "base64") == data
    assert from_text(repr(data), "escaped") == data


@pytest.mark.parametrize(
    ("text", "coding", "reason"),
    [
        ("abc", None, "even number of digits, not 3"),
        ("no such file.bin", None, "this isn't hex, base64 or"),
        ("zz", "hex", "not hex"),
        ("\\xzz", None, "not a string of"),
        ("A", "base64", "not base64"),
    ],
)
def test_undecodable_text_is_refused(text: str, coding: str | None, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        from_text(text, coding)


ZEROS = b"\0\1" * 8 + bytes(80) + b"\0\0\0\7|odd>"
DUMPS = [
    # hexdump -C, od -t x1 (octal offsets), od -A x -t x1z, hexdump, xxd -a; Wireshark's copies of a packet
    """
    00000000  00 01 00 01 00 01 00 01  00 01 00 01 00 01 00 01  |................|
    00000010  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
    *
    00000060  00 00 00 07 7c 6f 64 64  3e                       |....|odd>|
    00000069
    """,
    """
    0000000 00 01 00 01 00 01 00 01 00 01 00 01 00 01 00 01
    0000020 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    *
    0000140 00 00 00 07 7c 6f 64 64 3e
    0000151
    """,
    """
    000000 00 01 00 01 00 01 00 01 00 01 00 01 00 01 00 01  >................<
    000010 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  >................<
    *
    000060 00 00 00 07 7c 6f 64 64 3e                       >....|odd><
    000069
    """,
    """
    0000000 0100 0100 0100 0100 0100 0100 0100 0100
    0000010 0000 0000 0000 0000 0000 0000 0000 0000
    *
    0000060 0000 0700 6f7c 6464 003e
    0000069
    """,
    """
    00000000: 0001 0001 0001 0001 0001 0001 0001 0001  ................
    00000010: 0000 0000 0000 0000 0000 0000 0000 0000  ................
    *
    00000060: 0000 0007 7c6f 6464 3e                   ....|odd>
    """,
]


@pytest.mark.parametrize("text", DUMPS)
def test_dumps_of_other_programs_are_decoded(text: str) -> None:
    assert from_text(text, None) == ZEROS


def test_dumps_of_wireshark_and_parts_of_dumps() -> None:
    rows = [f"{at:04x}   {ZEROS[at : at + 16].hex(' ')}   ........ ab cd" for at in range(0, len(ZEROS), 16)]
    assert from_text("\n".join(rows), None) == ZEROS
    older = [
        f"{at:04x}  {ZEROS[at : at + 8].hex(' ')}  {ZEROS[at + 8 : at + 16].hex(' ')}   ab cd"
        for at in range(0, 96, 16)
    ]
    assert from_text("\n".join(older), None) == ZEROS[:96]
    assert from_text("\n".join(rows[2:5]), None) == ZEROS[32:80]


def test_grouped_hex_is_not_a_dump() -> None:
    assert from_text("00000000 00000010\n00000020 00000030", None) == bytes.fromhex(
        "00000000000000100000002000000030"
    )


@pytest.mark.lengthy
@given(st.text() | st.text("0x: *|>\n\\'\"b()-af") | st.binary().map(repr))
def test_any_text_gives_bytes_or_the_error(text: str) -> None:
    try:
        assert isinstance(from_text(text), bytes)
    except ConfigError as problem:
        assert str(problem)


@pytest.mark.parametrize(
    "text", ["b''" + "-" * 100_000, "b'', " + "(" * 100_000, "b'' if 1 else b'a'", "b'a', 1"]
)
def test_expressions_are_not_evaluated(text: str) -> None:
    with pytest.raises(ConfigError, match="not a string of"):
        from_text(text)


def test_repeated_rows_are_limited() -> None:
    text = "0000 00 00\n*\n00a0 00 00"
    assert from_text(text) == bytes(162)
    with pytest.raises(ConfigError, match="isn't hex, base64 or"):
        from_text(text, most=150)


def test_long_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="a text of 1,000 characters is too long"):
        from_text("00" * 500, most=100)


def test_files_contain_bytes_as_they_are_or_as_text() -> None:
    assert from_file(FRAME) == from_file(FRAME.hex().encode()) == FRAME
    assert from_file(b"00", "binary") == b"00"
    with pytest.raises(ConfigError, match="byte 0 is not text, so this is not hex"):
        from_file(b"\xff", "hex")
