"""Captures that we write, read by scapy, which also checks the checksums."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet
from scapy.utils import rdpcap

from kshare.capture import CaptureWriter

CLIENT, SERVER = ("10.0.0.7", 51234), ("10.0.0.1", 9092)


Talk = Callable[[CaptureWriter], object]
Written = Callable[[Talk], list[Packet]]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def write(talk: Talk) -> list[Packet]:
        path = tmp_path / "capture.pcapng"
        with path.open("wb") as file:
            talk(CaptureWriter(file.write))
        return list(rdpcap(str(path)))

    return write


def test_connection_is_opened_carries_data_and_is_closed(written: Written) -> None:
    def talk(writer: CaptureWriter) -> None:
        link = writer.connect(CLIENT, SERVER, 1.5)
        link.client_sends(b"question", 2.25)
        link.server_sends(b"response", 3.000000001)
        link.close(4.0)

    packets = written(talk)
    seen = [
        (float(packet.time), packet[IP].src, str(packet[TCP].flags), bytes(packet[TCP].payload))
        for packet in packets
    ]
    client, server = CLIENT[0], SERVER[0]
    assert seen == [
        (1.5, client, "S", b""),
        (1.5, server, "SA", b""),
        (1.5, client, "A", b""),
        (2.25, client, "PA", b"question"),
        (2.25, server, "A", b""),
        (3.0, server, "PA", b"response"),
        (3.0, client, "A", b""),
        (4.0, client, "FA", b""),
        (4.0, server, "FA", b""),
        (4.0, client, "A", b""),
    ]
    assert {(packet[TCP].sport, packet[TCP].dport) for packet in packets} == {(51234, 9092), (9092, 51234)}


def test_sequence_and_acknowledgement_numbers_agree(written: Written) -> None:
    def talk(writer: CaptureWriter) -> None:
        link = writer.connect(CLIENT, SERVER, 0)
        link.server_sends(b"x" * 100_000, 0)
        link.client_sends(b"y" * 3, 0)
        link.abort(0, by_client=False)

    expected = {CLIENT[1]: 0, SERVER[1]: 0}
    for packet in written(talk):
        tcp = packet[TCP]
        assert tcp.seq == expected[tcp.sport]
        assert tcp.ack == expected[tcp.dport]
        expected[tcp.sport] += len(tcp.payload) + ("S" in str(tcp.flags))
    assert expected == {CLIENT[1]: 4, SERVER[1]: 100_001}


@pytest.mark.parametrize(
    ("client", "layer", "addresses"),
    [
        ("192.168.1.20", IP, ("192.168.1.20", "10.0.0.1")),
        ("fe80::7", IPv6, ("fe80::7", "::ffff:10.0.0.1")),
    ],
)
@pytest.mark.parametrize("size", [0, 1, 2, 7, 1000, 32_768, 70_001])
def test_checksums_are_correct(
    written: Written, client: str, layer: type[Packet], addresses: tuple[str, str], size: int
) -> None:
    def talk(writer: CaptureWriter) -> None:
        link = writer.connect((client, 51234), SERVER, 0)
        link.client_sends(bytes(range(256)) * (size // 256) + b"\xff" * (size % 256), 0)
        link.close(0)

    for packet in written(talk):
        assert (packet[layer].src, packet[layer].dst) in (addresses, addresses[::-1])
        again = packet.copy()
        for kind in (layer, TCP):
            if "chksum" in again[kind].fields:
                del again[kind].chksum  # scapy calculates missing checksums
        assert bytes(again) == bytes(packet)
