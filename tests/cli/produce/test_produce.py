"""`kshare produce` with an embedded broker."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kshare.producer.partitioner import partition_for
from kshare.protocol.record import Record
from kshare.testing import Broker
from tests.cli.running import DEADLINE, KSHARE, ROOT, Done, Kshare, Piped, assert_refused, kshare
from tests.cli.terminals import Terminal


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    topics = dict.fromkeys(("plain", "keyed", "files", "slowly", "broken", "closed"), 1)
    with Broker(topics=topics, settings={"num.partitions": "1"}) as broker:
        yield broker


@pytest.fixture(autouse=True)
def _where(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", broker.bootstrap)


def written(broker: Broker, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in broker.records(topic)]


def test_lines_become_records(broker: Broker) -> None:
    done = kshare("produce", "--topic", "plain", stdin=b"one\n\nthree\r\nfour")
    assert done == Done(0, "4 records written: plain[0]@0..3\n")
    assert written(broker, "plain") == [(None, value) for value in (b"one", b"", b"three", b"four")]


@pytest.mark.lengthy
def test_topic_that_the_broker_creates_is_reported(broker: Broker) -> None:
    assert kshare("produce", "-t", "planes", stdin=b"one\n") == Done(
        0,
        "1 record written: planes[0]@0\n",
        "kshare: there was no topic planes, so the broker has created it; did you mean 'plain'?\n",
    )
    assert kshare("produce", "-t", "planes", stdin=b"two\n") == Done(0, "1 record written: planes[0]@1\n")


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("words", "stdin", "code"),
    [
        (["no-such-file"], b"", 1),
        (["--input", "json"], b"nonsense\n", 1),
        ([], b"", 0),
    ],
)
def test_no_topic_is_created_for_nothing(broker: Broker, words: list[str], stdin: bytes, code: int) -> None:
    assert kshare("produce", "-t", "never", *words, stdin=stdin).code == code
    assert "never" not in broker.call(lambda: [*broker.state.cluster.topics])


@pytest.mark.lengthy
@pytest.mark.parametrize("words", [[], [os.devnull]])
def test_empty_input_writes_nothing(broker: Broker, words: list[str]) -> None:
    command = [*KSHARE, "produce", "--topic", "plain", *words]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, cwd=ROOT, timeout=DEADLINE, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"0 records written\n", b"")


def test_lines_with_keys_headers_and_nulls(broker: Broker) -> None:
    options = ["-K", "::", "--null", "-", "-H", "trace=a=b", "-H", "empty="]
    assert kshare("produce", "-t", "keyed", *options, stdin=b"k::1\n-::2::3\nk::-\n").code == 0
    assert written(broker, "keyed") == [(b"k", b"1"), (None, b"2::3"), (b"k", None)]
    assert list(broker.records("keyed")[0].headers) == [("trace", b"a=b"), ("empty", b"")]


@pytest.mark.lengthy
def test_json_lines_set_all_fields(broker: Broker) -> None:
    broker.create_topic("json", 3)
    lines = [
        {"value": "text", "key": {"base64": "/wA="}, "partition": 2, "timestamp": 5},
        {"value": {"a": [1, None]}, "headers": [["h", "1"], ["h", None]], "partition": 2, "offset": 77},
        {"key": "gone", "headers": {"h": "2"}, "partition": 2},
    ]
    stdin = "\n".join(map(json.dumps, lines)).encode()
    done = kshare("produce", "-t", "json", "--input", "json", "--json", stdin=stdin)
    assert json.loads(done.out) == {
        "topic": "json",
        "records": 3,
        "partitions": [{"partition": 2, "first": 0, "last": 2, "records": 3}],
    }
    assert written(broker, "json") == [(b"\xff\0", b"text"), (None, b'{"a":[1,null]}'), (b"gone", None)]
    records: list[Record] = broker.records("json")
    assert records[0].timestamp == 5
    assert records[1].timestamp > 1_600_000_000_000
    assert list(records[1].headers) == [("h", b"1"), ("h", None)]


@pytest.mark.lengthy
def test_files_are_read_by_line_or_whole(broker: Broker, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"a\nb\n")
    second.write_bytes(b"c\xff")
    assert kshare("produce", "-t", "files", str(first), str(second)).code == 0
    assert kshare("produce", "-t", "files", "--input", "whole", "-k", "x", str(first), str(second)).code == 0
    assert written(broker, "files")[:3] == [(None, b"a"), (None, b"b"), (None, b"c\xff")]
    assert written(broker, "files")[3:] == [(b"x", b"a\nb\n"), (b"x", b"c\xff")]


@pytest.mark.lengthy
def test_keys_choose_partitions_and_keyless_records_are_spread(broker: Broker, run: Kshare) -> None:
    broker.create_topic("spread", 4)
    keys = ["a", "b", "c", "a"]
    done = kshare("produce", "-t", "spread", "-K", ":", "--json", stdin=b"a:1\nb:2\nc:3\na:4\n")
    found = {partition["partition"]: partition["records"] for partition in json.loads(done.out)["partitions"]}
    assert found == Counter(partition_for(key.encode(), 4) for key in keys)
    form = json.loads(run("produce", "-t", "spread", "--count", "4000", "--size", "20", "--json").out)
    assert [partition["records"] for partition in form["partitions"]] == [1000] * 4
    assert {len(record.value or b"") for record in broker.records("spread")} == {1, 20}


@pytest.mark.lengthy
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compression_codecs(broker: Broker, run: Kshare, codec: str) -> None:
    assert run("produce", "-t", f"in-{codec}", "--count", "3", "-z", codec).code == 0
    assert [value for _, value in written(broker, f"in-{codec}")] == [b"record 1", b"record 2", b"record 3"]


def test_rate_option(run: Kshare) -> None:
    done = run("produce", "-t", "slowly", "--count", "5", "--rate", "50")
    assert done.out == "5 records written: slowly[0]@0..4\n"


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("words", "stdin", "reason"),
    [
        (["-K", ":"], b"k:1\nnone\n", "line 2: there is no ':' between key and value"),
        (
            ["--input", "json"],
            b'{"value": "1"}\n{"val": 1}',
            "line 2: 'val' is not one of headers, key,",
        ),
        (["--input", "json"], b'{"value": "1"}\n[1]', 'line 2: this should be an object, such as {"value"'),
        (["--input", "json"], b'{"value": "1"}\nnonsense', "line 2: not JSON (Expecting value, column 1)"),
        (["--input", "json"], b'{"value": "1"}\n{"key": {"base64": "x"}}', "line 2: 'x' is not base64"),
        (["--input", "json"], b'{"value": "1"}\n{"headers": [1]}', "line 2: headers should be"),
        (["--input", "json"], b'{"value": "1"}\n{"partition": "0"}', "line 2: partition should be a whole"),
    ],
)
def test_invalid_input_is_reported_after_writing_what_precedes_it(
    words: list[str], stdin: bytes, reason: str
) -> None:
    done = kshare("produce", "-t", "broken", *words, stdin=stdin)
    assert done.code == 1
    assert done.out.startswith("1 record written: ")
    assert reason in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        ([], 2, "--topic"),
        (["-t", "bad name"], 2, "--topic bad name: not the name of a topic; use letters"),
        (
            ["-t", "plain", "-p", "7", "--count", "1"],
            1,
            "topic plain has no partition 7 (it has 1 partition)",
        ),
        (["-t", "plain", "-H", "x"], 2, "should be NAME=VALUE"),
        (["-t", "plain", "-K", ""], 2, "must not be empty"),
        (["-t", "plain", "-K", ":", "-k", "x"], 2, "which is the key?"),
        (["-t", "plain", "--size", "3"], 2, "add --count"),
        (["-t", "plain", "--count", "1", "--size", "99999999999"], 2, "holds at most 2147483647 bytes"),
        (["-t", "plain", "--count", "1", "--rate", "inf"], 2, "omit --rate"),
        (["-t", "plain", "--count", "3", "file"], 2, "leave the files out"),
        (["-t", "plain", "--input", "json", "-K", ":"], 2, "is for lines"),
        (["-t", "plain", "no-such-file"], 1, "no-such-file: No such file"),
    ],
)
def test_errors_are_reported_on_one_line(run: Kshare, words: list[str], code: int, reason: str) -> None:
    assert_refused(run("produce", *words), code, reason)


@pytest.mark.lengthy
def test_typed_lines_are_sent_at_once(broker: Broker) -> None:
    broker.create_topic("typed")
    with Terminal("produce", "-t", "typed") as terminal:
        for number in range(2):
            terminal.type(f"line {number}\n")
            terminal.until(f"line {number}")
            while len(broker.records("typed")) <= number:
                assert terminal.process.poll() is None
        terminal.type("\x04")
        terminal.until("2 records written: typed[0]@0..1")
        assert terminal.end() == 0


@pytest.mark.lengthy
def test_ctrl_c_reports_what_was_written(broker: Broker) -> None:
    broker.create_topic("interrupted")
    with Terminal("produce", "-t", "interrupted") as terminal:
        terminal.type("one\n")
        while not broker.records("interrupted"):
            assert terminal.process.poll() is None
        terminal.type("\x03")
        # What reached the broker may not have been confirmed yet at the interrupt.
        text = terminal.until("\n")
        while not re.search(r"\d+ records? written", text):
            text = terminal.until("\n")
        assert "1 record written" in text or "0 records written; 1 more sent" in text
        assert terminal.end() == 130
        assert "Traceback" not in terminal.text


def test_closed_pipe_ends_it_quietly() -> None:
    with Piped("produce", "-t", "closed", "--count", "1") as reader:
        reader.close()
        assert reader.end() == (141, b"")
