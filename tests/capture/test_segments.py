"""TCP segments from packets made by scapy: link types, VLANs, both IP versions, options, padding, truncation."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop
from scapy.layers.l2 import CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether, Loopback
from scapy.packet import Packet as Layers

from kshare.capture.packet import Packet
from kshare.capture.segments import Segment, UnreadPacketError, endpoint, segment_of

ETHER = Ether(src="02:00:00:00:00:07", dst="02:00:00:00:00:01")
"""With both addresses: scapy asks the network for missing ones."""
IP4 = IP(src="10.0.0.7", dst="10.0.0.1")
IP6 = IPv6(src="fe80::7", dst="2001:db8::1")
TCP_DATA = TCP(sport=51234, dport=9092, seq=4_000_000_000, ack=17, flags="PA") / b"data"


def segment(link: int, packet: Layers | bytes) -> Segment | None:
    return segment_of(Packet(0.0, link, memoryview(bytes(packet))))


def unread(link: int, packet: Layers | bytes) -> str:
    with pytest.raises(UnreadPacketError) as raised:
        segment(link, packet)
    return str(raised.value)


@pytest.mark.parametrize(
    ("link", "packet"),
    [
        (1, ETHER / IP4 / TCP_DATA),
        (1, ETHER / IP6 / TCP_DATA),
        (1, ETHER / Dot1Q(vlan=7) / IP4 / TCP_DATA),
        (1, ETHER / Dot1AD(vlan=9) / Dot1Q(vlan=7) / IP6 / TCP_DATA),
        (113, CookedLinux() / IP4 / TCP_DATA),
        (113, CookedLinux() / Dot1Q(vlan=7) / IP4 / TCP_DATA),
        (276, CookedLinuxV2() / IP6 / TCP_DATA),
        (0, Loopback(type=2) / IP4 / TCP_DATA),
        (0, Loopback(type=30) / IP6 / TCP_DATA),
        (0, b"\x02\0\0\0" + bytes(IP4 / TCP_DATA)),
        (108, Loopback(type=24) / IP6 / TCP_DATA),
        (101, IP4 / TCP_DATA),
        (101, IP6 / TCP_DATA),
        (12, IP4 / TCP_DATA),
        (228, IP4 / TCP_DATA),
        (229, IP6 / TCP_DATA),
    ],
)
def test_every_link_type(link: int, packet: Layers | bytes) -> None:
    found = segment(link, packet)
    assert found is not None
    assert (endpoint(found.source), endpoint(found.target)) in (
        ("10.0.0.7:51234", "10.0.0.1:9092"),
        ("[fe80::7]:51234", "[2001:db8::1]:9092"),
    )
    assert (found.sequence, found.acknowledged, found.flags) == (4_000_000_000, 17, 24)
    assert (bytes(found.payload), found.missing) == (b"data", 0)


def test_options_and_extension_headers_are_skipped() -> None:
    options = (
        TCP(sport=1, dport=2, flags="S", options=[("MSS", 1460), ("SAckOK", b""), ("WScale", 7)]) / b"early"
    )
    for ip in (
        IP(src=IP4.src, dst=IP4.dst, options=[IPOption_NOP()] * 4),
        IP6 / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt(),
        IP6 / IPv6ExtHdrFragment(),  # an atomic fragment: the only one of its packet
    ):
        found = segment(101, ip / options)
        assert found is not None
        assert (bytes(found.payload), found.acknowledged) == (b"early", -1)


def test_padding_is_not_payload() -> None:
    found = segment(1, bytes(ETHER / IP4 / TCP(flags="A")) + bytes(6))
    assert found is not None
    assert (len(found.payload), found.missing) == (0, 0)


def test_truncated_packet_reports_the_missing_bytes() -> None:
    whole = bytes(ETHER / IP4 / TCP() / (b"x" * 1000))
    found = segment(1, whole[:100])
    assert found is not None
    assert (len(found.payload), found.missing) == (46, 954)
    barely = segment(1, whole[:54])
    assert barely is not None
    assert (len(barely.payload), barely.missing) == (0, 1000)


def test_length_of_zero_means_all_captured_bytes() -> None:
    """Packets that are larger than IP allows have it, if captured before the network card splits them."""
    for ip in (IP(src="10.0.0.7", dst="10.0.0.1", len=0), IPv6(src=IP6.src, dst=IP6.dst, plen=0)):
        found = segment(101, bytes(ip / TCP_DATA))
        assert found is not None
        assert bytes(found.payload) == b"data"


@pytest.mark.parametrize(
    "packet",
    [
        bytes(ETHER)[:12] + b"\x08\x06" + bytes(28),
        ETHER / IP4 / UDP(),
        ETHER / IP6 / UDP(),
        ETHER / IP4 / ICMP(),
    ],
)
def test_packets_without_tcp_are_none(packet: Layers | bytes) -> None:
    assert segment(1, packet) is None


def test_unreadable_packets_are_named() -> None:
    assert unread(105, b"wifi") == "link type 105"
    assert unread(1, bytes(ETHER / IP4 / TCP())[:40]) == "truncated inside the headers"
    assert unread(1, b"") == "truncated inside the headers"
    assert unread(101, IP(src=IP4.src, dst=IP4.dst, flags="MF") / TCP_DATA) == "IP fragments"
    assert unread(101, IP6 / IPv6ExtHdrFragment(m=1, nh=6) / TCP_DATA) == "IP fragments"


@given(st.sampled_from([0, 1, 101, 113, 276]), st.binary(max_size=100))
def test_arbitrary_bytes_raise_nothing_but_unread_packet_error(link: int, data: bytes) -> None:
    with contextlib.suppress(UnreadPacketError):
        segment(link, data)


DAMAGEABLE = [bytes(ETHER / Dot1Q() / ip / TCP_DATA) for ip in (IP4, IP6 / IPv6ExtHdrHopByHop())]


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 255)), max_size=6), st.booleans())
def test_damaged_packets_raise_nothing_but_unread_packet_error(
    damage: list[tuple[int, int]], is_new: bool
) -> None:
    data = bytearray(DAMAGEABLE[is_new])
    for at, value in damage:
        data[at % len(data)] = value
    with contextlib.suppress(UnreadPacketError):
        segment(1, bytes(data))
