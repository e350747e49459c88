"""Input formats of `kshare decode`: hex, base64, escapes, and dumps of other programs."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.cli.decode.read_input import from_text, read_input
from kshare.cli.terminal.failure import Failure
from tests.cli import frames
from tests.cli.running import kshare

FRAME = frames.fetch_request()


def dump(data: bytes, *, colon: str = ":") -> str:
    rows = [(at, data[at : at + 16]) for at in range(0, len(data), 16)]
    return "\n".join(f"{at:08x}{colon} {row.hex(' ', 2)}  {'.' * len(row)}" for at, row in rows)


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
    with pytest.raises(Failure, match=reason):
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


def test_files_contain_bytes_or_text(tmp_path: Path) -> None:
    for name, content in (("raw", FRAME), ("hex", FRAME.hex().encode()), ("dump", dump(FRAME).encode())):
        (tmp_path / name).write_bytes(content)
        assert bytes(read_input(str(tmp_path / name), None)) == FRAME


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(Failure, match="no bytes at all"):
        read_input(str(tmp_path / "empty"), None)


@pytest.mark.lengthy
@pytest.mark.parametrize("content", [FRAME, FRAME.hex().encode() + b"\n"])
@pytest.mark.parametrize("source", [[], ["-"]])
def test_standard_input_contains_bytes_or_text(content: bytes, source: list[str]) -> None:
    done = kshare("decode", *source, "--field", "groupId", stdin=content)
    assert (done.code, done.err) == (0, "")
    assert 'groupId "orders"' in done.out
