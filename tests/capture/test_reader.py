"""pcap and pcapng files in both byte orders, written by scapy or ourselves; truncated files; files of other kinds."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import PcapNgWriter, wrpcap

from kshare.capture import CaptureError, CaptureReader, CaptureWriter, is_capture

TIMES = [1_795_256_682.5, 1_795_256_682.571402]
ETHER = Ether(src="02:00:00:00:00:07", dst="02:00:00:00:00:01")
FRAMES = [
    bytes(ETHER / IP(src="10.0.0.7", dst="10.0.0.1") / TCP() / text)
    for text in ("first", "second, which is longer")
]


def read(data: bytes, chunk: int = 1 << 20) -> list[tuple[float, int, bytes]]:
    reader = CaptureReader()
    packets = [
        (packet.time, packet.link, bytes(packet.data))
        for at in range(0, len(data), chunk)
        for packet in reader.feed(data[at : at + chunk])
    ]
    reader.finish()
    return packets


def check(packets: list[tuple[float, int, bytes]], link: int = 1) -> None:
    assert [packet[1:] for packet in packets] == [(link, frame) for frame in FRAMES]
    assert [packet[0] for packet in packets] == pytest.approx(TIMES, abs=1e-6)


def scapy_packets() -> list[Ether]:
    packets = [Ether(frame) for frame in FRAMES]
    for packet, time in zip(packets, TIMES, strict=True):
        packet.time = time
    return packets


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("is_nano", [False, True])
@pytest.mark.parametrize("chunk", [1, 7, 100_000])
def test_pcap(tmp_path: Path, order: str, is_nano: bool, chunk: int) -> None:
    path = tmp_path / "one.pcap"
    wrpcap(str(path), scapy_packets(), endianness=order, nano=is_nano)
    data = path.read_bytes()
    assert is_capture(data)
    check(read(data, chunk))


@pytest.mark.parametrize("chunk", [1, 7, 100_000])
def test_pcapng_written_by_scapy(tmp_path: Path, chunk: int) -> None:
    path = tmp_path / "one.pcapng"
    with PcapNgWriter(str(path)) as writer:
        writer.write(scapy_packets())
    data = path.read_bytes()
    assert is_capture(data)
    check(read(data, chunk))


def block(order: str, kind: int, body: bytes) -> bytes:
    size = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + size + body + size


def section(order: str) -> bytes:
    return block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_time_resolutions_and_offsets(order: str) -> None:
    """Powers of ten and of two, and an offset in seconds; each interface has its own link type."""
    by_two = struct.pack(f"{order}HHB3xHHqHH", 9, 1, 0x80 | 20, 14, 8, 1000, 0, 0)
    plain = struct.pack(f"{order}HHI", 1, 0, 0)
    data = section(order)
    data += block(order, 1, struct.pack(f"{order}HHI", 101, 0, 0) + by_two)
    data += block(order, 1, plain)
    data += block(order, 4, b"")  # name resolution: skipped
    data += block(order, 6, struct.pack(f"{order}IIIII", 0, 0, 3 << 19, 4, 4) + b"four")
    data += block(order, 6, struct.pack(f"{order}IIIII", 1, 0, 2_500_000, 3, 3) + b"two\0")
    data += block(order, 2, struct.pack(f"{order}HHIIII", 1, 9, 0, 7_000_000, 4, 4) + b"old.")
    assert read(data) == [(1001.5, 101, b"four"), (2.5, 1, b"two"), (7.0, 1, b"old.")]


def test_simple_packets_and_a_second_section() -> None:
    data = section("<") + block("<", 1, struct.pack("<HHI", 1, 0, 5))
    data += block("<", 3, struct.pack("<I", 5) + b"whole\0\0\0") + block(
        "<", 3, struct.pack("<I", 99) + b"cut off."
    )
    data += (
        section(">")
        + block(">", 1, struct.pack(">HHI", 113, 0, 0))
        + block(">", 3, struct.pack(">I", 4) + b"more")
    )
    assert [packet[1:] for packet in read(data)] == [(1, b"whole"), (1, b"cut o"), (113, b"more")]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "byte 0: not a capture file"),
        (b"abc", "byte 0: not a capture file"),
        (b"abcd", "byte 0: not a capture file: it begins with 61 62 63 64"),
        (
            b"\xd4\xc3\xb2\xa1\x02\0",
            "byte 0: the file ends in the middle of a packet, 6 bytes of it are present",
        ),
        (
            b"\x0a\x0d\x0d\x0a" + b"\x1c\0\0\0" + b"ABCD" + bytes(16),
            "byte 0: a section header without a valid byte order",
        ),
        (
            section("<") + block("<", 6, bytes(20)),
            "byte 28: a packet of interface 0, which was not described",
        ),
        (
            section("<") + struct.pack("<II", 6, 1 << 30) + bytes(8),
            "byte 28: a block with an invalid size of 1073741824 bytes",
        ),
        (
            section("<") + block("<", 1, bytes(8)) + block("<", 6, struct.pack("<IIIII", 0, 0, 0, 9, 9)),
            "byte 48",
        ),
    ],
)
def test_damage_is_reported_with_its_position(data: bytes, reason: str) -> None:
    with pytest.raises(CaptureError) as raised:
        read(data)
    assert str(raised.value).startswith(reason)


def test_packets_before_the_damage_are_read(tmp_path: Path) -> None:
    path = tmp_path / "one.pcap"
    wrpcap(str(path), scapy_packets())
    data = path.read_bytes()
    reader = CaptureReader()
    seen = [bytes(packet.data) for packet in reader.feed(data[:-3])]
    assert seen == FRAMES[:1]
    with pytest.raises(CaptureError, match="ends in the middle of a packet"):
        reader.finish()


def capture_of_two() -> bytes:
    blocks: list[bytes] = []
    writer = CaptureWriter(blocks.append)
    link = writer.connect(("10.0.0.7", 51234), ("10.0.0.1", 9092), 1.5)
    link.client_sends(b"data", 2.5)
    return b"".join(blocks)


@pytest.mark.lengthy
@given(st.data())
def test_arbitrary_damage_raises_nothing_but_capture_error(data: st.DataObject) -> None:
    capture = bytearray(capture_of_two())
    for _ in range(data.draw(st.integers(1, 5))):
        capture[data.draw(st.integers(0, len(capture) - 1))] = data.draw(st.integers(0, 255))
    try:
        read(bytes(capture), data.draw(st.integers(16, 400)))
    except CaptureError as problem:
        assert 0 <= problem.offset <= len(capture)
