"""`kshare pcap`: captures that are complete, partial, reordered, damaged or encrypted; by tcpdump or made here."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import anyio
import pytest

from kshare import ShareConsumer
from kshare.capture import CaptureWriter
from kshare.testing import Broker
from tests.capture.loopback import captured
from tests.cli.packets import CAPTURES, packets_of, with_packets
from tests.cli.running import Done, Kshare, kshare, without_colours
from tests.cli.terminals import on_terminal

NAMES = ["ethernet", "linux-cooked", "linux-cooked-2"]
CLEAN = "no linter findings"


@pytest.fixture(scope="module")
def loopback(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture made now: a share consumer accepts ten records one by one."""
    path = tmp_path_factory.mktemp("captures") / "loopback.pcap"
    with Broker(topics={"orders": 1}) as broker:
        broker.set_group_config("shippers", {"share.auto.offset.reset": "earliest"})
        broker.produce("orders", [b"order %d" % number for number in range(10)])
        with captured(path, int(broker.bootstrap.rpartition(":")[2])):
            anyio.run(_ship, broker.bootstrap)
    return path


async def _ship(bootstrap: str) -> None:
    with anyio.fail_after(60):
        async with ShareConsumer(
            bootstrap, group="shippers", topics=["orders"], client_id="truck-7"
        ) as consumer:
            async for record in consumer:
                record.accept()
                if record.value == b"order 9":
                    break


def forms(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


def of_type(done: Done, kind: str) -> list[dict[str, Any]]:
    return [form for form in forms(done) if form["type"] == kind]


def rewritten(path: Path, name: str, packets: list[bytes]) -> str:
    target = path / "other.pcap"
    target.write_bytes(with_packets((CAPTURES / f"{name}.pcap").read_bytes(), packets))
    return str(target)


@pytest.mark.lengthy
@pytest.mark.captures
def test_loopback_capture(run: Kshare, loopback: Path) -> None:
    done = run("pcap", str(loopback))
    assert (done.code, done.err) == (0, "")
    assert "truck-7#" in done.out
    assert "ShareGroupHeartbeat v1  shippers  joins" in done.out
    assert "acquired 10 records" in done.out
    assert "acknowledged 10: accept 10" in done.out
    assert done.out.endswith(f"{CLEAN}\n")


@pytest.mark.parametrize("name", NAMES)
def test_tcpdump_captures(run: Kshare, name: str) -> None:
    done = run("pcap", str(CAPTURES / f"{name}.pcap"))
    assert (done.code, done.err) == (0, "")
    assert "till#" in done.out
    assert "acquired 20 records" in done.out
    assert "acknowledged 20: accept 20" in done.out
    assert "could not be" not in done.out
    assert CLEAN in done.out


def test_json_has_exchanges_a_summary_and_capture_statistics(run: Kshare) -> None:
    done = run("pcap", "--json", str(CAPTURES / "ethernet.pcap"))
    (summary,) = of_type(done, "summary")
    (capture,) = of_type(done, "capture")
    assert (summary["exchanges"], summary["undecoded"]) == (len(of_type(done, "exchange")), 0)
    assert capture["connections"] == {"unclear": 0, "kafka": 4, "encrypted": 0, "foreign": 0}
    assert (capture["lostBytes"], capture["unread"], capture["unanswered"]) == (0, {}, 0)


def test_filters_verbose_and_ports(run: Kshare) -> None:
    path = str(CAPTURES / "ethernet.pcap")
    only = run("pcap", path, "--api", "ShareAcknowledge", "-v")
    assert "ShareFetch v2  epoch" not in only.out
    assert "acknowledgementBatches[0]" in only.out
    nothing = run("pcap", path, "--port", "9092")
    assert (nothing.code, nothing.out.strip()) == (0, "no Kafka traffic")
    assert not [line for line in run("pcap", path, "--lint").out.splitlines() if "→" in line]


def exchanges(done: Done) -> list[str]:
    return [line for line in done.out.splitlines() if "→" in line]


def test_topics_without_metadata_are_found_by_id(run: Kshare, tmp_path: Path) -> None:
    """After the last Metadata response, only topic ids appear. A note says which id to filter by."""
    whole = CAPTURES / "ethernet.pcap"
    late = rewritten(tmp_path, "ethernet", packets_of(whole.read_bytes())[40:])
    done = run("pcap", late, "--topic", "orders")
    assert (done.code, exchanges(done)) == (0, [])
    note = next(line for line in done.out.splitlines() if "not shown" in line)
    assert note.startswith("3 exchanges of topic id WoYcf5Is")
    topic_id = note.split()[5]
    for written in (topic_id, f"{topic_id[:8]}…"):
        found = run("pcap", late, "--topic", written)
        assert len(exchanges(found)) == 3
        assert "not shown" not in found.out
    (note_form,) = of_type(run("pcap", late, "--topic", "orders", "--json"), "note")
    assert note_form["text"] == note
    assert "not shown" not in run("pcap", late, "--topic", "orders", "--api", "Produce").out
    assert exchanges(run("pcap", str(whole), "--topic", topic_id)) != []


def test_exchanges_before_the_topic_name_was_known_are_noted(run: Kshare, tmp_path: Path) -> None:
    packets = packets_of((CAPTURES / "ethernet.pcap").read_bytes())
    # The first packets, which include Metadata, are moved to the end.
    turned = rewritten(tmp_path, "ethernet", [*packets[40:], *packets[:40]])
    out = run("pcap", turned, "--topic", "orders").out
    assert "3 exchanges of orders not shown: they came before its name was known; --topic WoYcf5Is" in out
    assert "not shown" not in run("pcap", turned, "--topic", "returns").out


def test_reordered_and_repeated_packets_change_nothing(run: Kshare, tmp_path: Path) -> None:
    """Packets swap places with their neighbours, and some appear twice."""
    plain = run("pcap", str(CAPTURES / "ethernet.pcap")).out
    whole = packets_of((CAPTURES / "ethernet.pcap").read_bytes())
    chance = random.Random(7)
    for _ in range(5):
        keys = [number + chance.random() * 4 if number > 20 else number for number in range(len(whole))]
        packets = [packet for _, packet in sorted(zip(keys, whole, strict=True))]
        packets += chance.sample(whole, 10)
        done = run("pcap", rewritten(tmp_path, "ethernet", packets))
        assert sorted(done.out.splitlines()) == sorted(plain.splitlines())


@pytest.mark.lengthy
@pytest.mark.parametrize("name", NAMES)
def test_captures_that_start_mid_connection(run: Kshare, tmp_path: Path, name: str) -> None:
    """Wherever a capture starts, shown exchanges are real, and clients are told apart from servers."""
    path = CAPTURES / f"{name}.pcap"
    whole = run("pcap", "--json", str(path))
    said = {(form["client"], form["api"], form["correlationId"]) for form in of_type(whole, "exchange")}
    packets = packets_of(path.read_bytes())
    for begin in range(4, len(packets) - 8, 3):
        done = run("pcap", "--json", rewritten(tmp_path, name, packets[begin:]))
        seen = {(form["client"], form["api"], form["correlationId"]) for form in of_type(done, "exchange")}
        assert done.code == 0
        assert seen <= said
        if begin < len(packets) // 2:
            assert any(api == "ShareAcknowledge" for _, api, _ in seen)


def test_missing_packet_loses_only_its_own_exchanges(run: Kshare, tmp_path: Path) -> None:
    path = CAPTURES / "ethernet.pcap"
    packets = packets_of(path.read_bytes())
    whole = len(of_type(run("pcap", "--json", str(path)), "exchange"))
    for missing in range(20, len(packets) - 8, 5):
        left = packets[:missing] + packets[missing + 1 :]
        done = run("pcap", "--json", rewritten(tmp_path, "ethernet", left))
        (summary,) = of_type(done, "summary")
        assert (done.code, summary["undecoded"]) == (0, 0)
        assert summary["exchanges"] >= whole - 3


@pytest.mark.lengthy
@pytest.mark.parametrize("size", [1, 3])
def test_missing_packets_cause_no_linter_findings(run: Kshare, tmp_path: Path, size: int) -> None:
    """Wherever the packets are missing: these clients behaved correctly."""
    packets = packets_of((CAPTURES / "ethernet.pcap").read_bytes())
    for missing in range(len(packets) - size):
        left = packets[:missing] + packets[missing + size :]
        done = run("pcap", "--lint", rewritten(tmp_path, "ethernet", left))
        assert (done.code, CLEAN in done.out) == (0, True), (missing, done.out)


@pytest.mark.lengthy
def test_damaged_captures_cause_no_traceback(run: Kshare, tmp_path: Path) -> None:
    capture = (CAPTURES / "ethernet.pcap").read_bytes()
    target = tmp_path / "damaged.pcap"
    chance = random.Random(11)
    for _ in range(30):
        damaged = bytearray(capture)
        for _ in range(chance.choice([1, 10, 200])):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        target.write_bytes(damaged[: chance.randrange(len(damaged))] if chance.random() < 0.3 else damaged)
        done = run("pcap", str(target), *chance.choice([[], ["-v"], ["--json"]]))
        assert done.code in (0, 1)
        assert "bug" not in done.err
        assert done.err.count("\n") <= 1


def conversation(tmp_path: Path, *said: bytes) -> str:
    """The client sends first, then the two take turns."""
    path = tmp_path / "talk.pcapng"
    with path.open("wb") as file:
        link = CaptureWriter(file.write).connect(("10.0.0.7", 51234), ("10.0.0.1", 9092), 1.0)
        for number, data in enumerate(said):
            (link.server_sends if number % 2 else link.client_sends)(data, 2.0 + number)
        link.close(10.0)
    return str(path)


def test_connections_without_kafka_are_reported(run: Kshare, tmp_path: Path) -> None:
    web = conversation(tmp_path, b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n")
    done = run("pcap", web)
    assert done.code == 0
    assert "1 connection without Kafka traffic" in done.out
    encrypted = conversation(
        tmp_path, b"\x16\x03\x01\x02\x00\x01" + bytes(50), b"\x16\x03\x03\x00\x7a" + bytes(50)
    )
    done = run("pcap", encrypted)
    assert "1 connection encrypted (TLS) and not shown" in done.out
    assert of_type(run("pcap", "--json", encrypted), "capture")[0]["connections"]["encrypted"] == 1


def test_unreadable_packets_are_counted(run: Kshare, tmp_path: Path) -> None:
    capture = bytearray((CAPTURES / "ethernet.pcap").read_bytes())
    capture[20] = 105
    (tmp_path / "wifi.pcap").write_bytes(capture)
    done = run("pcap", str(tmp_path / "wifi.pcap"))
    assert done.code == 0
    assert f"{len(packets_of(bytes(capture)))} packets could not be read: link type 105" in done.out


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "byte 0: not a capture file, too short to be one"),
        (b"what is this?", "byte 0: not a capture file: it begins with 77 68 61 74, neither pcap nor pcapng"),
    ],
)
def test_files_that_are_not_captures_are_refused(
    run: Kshare, tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    done = run("pcap", str(path))
    assert (done.code, done.out, done.err) == (1, "", f"kshare: {path}: {reason}\n")


def test_missing_file_is_an_error(run: Kshare) -> None:
    done = run("pcap", "/nowhere/at.all")
    assert (done.code, done.err) == (1, "kshare: /nowhere/at.all: No such file or directory\n")


def test_truncated_capture_is_shown_up_to_its_end(run: Kshare, tmp_path: Path) -> None:
    capture = (CAPTURES / "ethernet.pcap").read_bytes()
    (tmp_path / "cut.pcap").write_bytes(capture[:-10])
    done = run("pcap", str(tmp_path / "cut.pcap"))
    assert done.code == 1
    assert "acquired 20 records" in done.out
    assert done.err.endswith("the file ends in the middle of a packet, 72 bytes of it are present\n")


@pytest.mark.lengthy
def test_standard_input_and_decode_show_the_same(run: Kshare) -> None:
    path = CAPTURES / "ethernet.pcap"
    from_file = run("pcap", str(path))
    assert from_file.code == 0
    assert kshare("pcap", "-", stdin=path.read_bytes()) == from_file
    assert kshare("decode", stdin=path.read_bytes()) == from_file
    assert run("decode", str(path)) == from_file
    assert forms(run("decode", "--json", str(path))) == forms(run("pcap", "--json", str(path)))
    refused = run("decode", "--hex", str(path))
    assert refused.code == 1
    assert "kshare pcap -v" in refused.err


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_long_lines_are_wrapped_on_a_terminal(columns: int) -> None:
    done = on_terminal("pcap", str(CAPTURES / "ethernet.pcap"), columns=columns)
    assert done.code == 0
    lines = without_colours(done.out).splitlines()
    assert all(len(line) <= columns for line in lines)
    text = " ".join(" ".join(lines).split())
    assert "epoch 1 accept orders-1 0-7 acquired orders-0 4-7 x1 7.2 ms" in text
    assert any(line.startswith(" " * 13) for line in lines) == (columns < 200)


def test_standard_input_from_a_terminal_is_refused() -> None:
    assert on_terminal("pcap", "-").out.startswith("kshare: no input: name a file")
