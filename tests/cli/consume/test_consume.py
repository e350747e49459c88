"""`kshare consume` with an embedded broker: its output, and the states of shown and unshown records."""

from __future__ import annotations

import itertools
import json
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

from kshare.testing import Broker
from tests.cli.running import DEADLINE, KSHARE, ROOT, Done, Kshare, Piped, assert_refused, kshare
from tests.cli.terminals import Terminal

pytestmark = pytest.mark.lengthy

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(autouse=True)
def _where(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", broker.bootstrap)


@pytest.fixture
def topic(broker: Broker) -> str:
    """A topic of ten records; the group of the same name starts at the earliest offset."""
    name = f"orders-{next(_numbers)}"
    broker.create_topic(name)
    broker.set_group_config(name, {"share.auto.offset.reset": "earliest"})
    broker.produce(name, [b"value %d" % number for number in range(10)], key=b"k", headers=[("h", b"1")])
    return name


def consume(topic: str, *words: str) -> Done:
    return kshare("consume", "-t", topic, "-g", topic, *words)


def left(run: Kshare, group: str) -> list[tuple[int, int, int]]:
    """The available ranges of the group's only share-partition: first offset, last offset, deliveries."""
    (form,) = json.loads(run("state", group, "--json").out)
    return [
        (range_["first"], range_["last"], range_["deliveries"])
        for range_ in form["ranges"]
        if range_["state"] == "available"
    ]


def test_shown_records_are_accepted_and_no_others_are_acquired(topic: str, run: Kshare) -> None:
    done = consume(topic, "-n", "3")
    assert done == Done(0, "value 0\nvalue 1\nvalue 2\n", "kshare: 3 records shown: 3 accepted\n")
    assert left(run, topic) == [(3, 9, 0)]


def test_shown_records_are_released_or_rejected(topic: str, run: Kshare) -> None:
    assert consume(topic, "-n", "2", "--release", "-f", r"%o\n").out == "0\n0\n"
    assert left(run, topic) == [(0, 0, 2), (1, 9, 0)]
    assert consume(topic, "-n", "2", "--reject", "-f", r"%o %d\n").out == "0 3\n1 1\n"
    assert left(run, topic) == [(2, 9, 0)]
    assert '"archived"' in run("state", topic, "--history", "--json").out


def test_timeout_ends_it(topic: str) -> None:
    done = consume(topic, "--timeout-ms", "500")
    assert done.out == "".join(f"value {number}\n" for number in range(10))
    assert done.err == "kshare: 10 records shown: 10 accepted\n"
    assert consume(topic, "--timeout-ms", "300") == Done(0, "", "kshare: 0 records shown\n")


def test_output_formats(broker: Broker, topic: str, tmp_path: Path) -> None:
    (record, *_) = broker.records(topic)
    file = tmp_path / "formatter.properties"
    file.write_text("print.key=true\nkey.separator=|\nprint.headers=true\n")
    done = consume(topic, "-n", "1", "--formatter-config", str(file), "--property", "print.delivery=true")
    assert done.out == "Delivery:1|h:1|k|value 0\n"
    done = consume(
        topic, "-n", "1", "-f", r"%t[%p]@%o %d %T %k/%K %s/%S %h %{header:h} %{header:x}%%\t!\x41\n"
    )
    assert done.out == f"{topic}[0]@1 1 {record.timestamp} k/1 value 1/7 h=1 1 %\t!A\n"
    form = json.loads(consume(topic, "-n", "1", "--json", "--value-deserializer", "base64").out)
    assert form == {
        "topic": topic,
        "partition": 0,
        "offset": 2,
        "timestamp": record.timestamp,
        "timestamp_type": "create",
        "delivery_count": 1,
        "headers": [["h", "1"]],
        "key": "k",
        "value": "dmFsdWUgMg==",
    }


def test_json_lines_can_be_produced_again(broker: Broker, topic: str) -> None:
    broker.produce(topic, [b"\xff\0", None], headers=[("n", None), ("n", b"\xfe")])
    copy = f"{topic}-copy"
    lines = consume(topic, "-n", "12", "--json").out
    assert kshare("produce", "-t", copy, "--input", "json", stdin=lines.encode()).code == 0
    assert [
        (record.key, record.value, record.headers, record.timestamp) for record in broker.records(copy)
    ] == [(record.key, record.value, record.headers, record.timestamp) for record in broker.records(topic)]


def test_undecodable_records_fail_or_are_rejected(topic: str, run: Kshare) -> None:
    done = consume(topic, "-n", "2", "--value-deserializer", "LongDeserializer")
    assert (done.code, done.out) == (1, "")
    assert f"{topic}[0]@0: its value can't be read: a long has 8 bytes, not 7" in done.err
    words = ["--value-deserializer", "org.apache.kafka.common.serialization.LongDeserializer"]
    done = consume(topic, "-n", "2", "--reject-message-on-error", *words)
    assert (done.code, done.out) == (0, "")
    assert done.err.endswith("kshare: 0 records shown: 2 rejected\n")
    assert left(run, topic) == [(2, 9, 0)]


def test_records_that_a_closed_pipe_did_not_take_are_released(topic: str, run: Kshare) -> None:
    for number in range(3):
        done = subprocess.run(
            [
                "bash",
                "-c",
                f"{shlex.join(KSHARE)} consume -t {topic} -g {topic} | head -n 2; exit ${{PIPESTATUS[0]}}",
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        assert (done.returncode, done.stdout) == (141, f"value {number * 2}\nvalue {number * 2 + 1}\n")
        assert done.stderr == "kshare: 2 records shown: 2 accepted\n"
        first, _, deliveries = left(run, topic)[0]
        assert first == number * 2 + 2
        assert deliveries <= number + 1


def test_closed_pipe_ends_it_even_when_no_records_arrive(topic: str) -> None:
    with Piped("consume", "-t", topic, "-g", topic) as reader:
        for number in range(10):
            assert reader.line() == b"value %d\n" % number
        reader.close()
        assert reader.end() == (141, b"kshare: 10 records shown: 10 accepted\n")


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_it_and_shown_records_are_accepted(
    topic: str, run: Kshare, sign: signal.Signals, code: int, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with (
        out.open("wb") as file,
        subprocess.Popen(
            [*KSHARE, "consume", "-t", topic, "-g", topic], cwd=ROOT, stdout=file, stderr=subprocess.PIPE
        ) as process,
    ):
        deadline = monotonic() + DEADLINE
        while out.read_bytes().count(b"\n") < 10:
            assert monotonic() < deadline
            sleep(0.01)
        for _ in range(2):  # as GNU timeout does; later signals might hit the interpreter's shutdown
            process.send_signal(sign)
        _, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, err.strip()) == (code, b"kshare: 10 records shown: 10 accepted")
    assert run("state", topic, "--json").out.count('"available"') == 0


def test_large_outputs_are_complete(broker: Broker) -> None:
    broker.create_topic("large")
    broker.set_group_config("large", {"share.auto.offset.reset": "earliest"})
    values = [b"%d" % number + b"x" * (number % 25_000) for number in range(0, 160_000, 1000)] + [b"y"] * 2000
    for start in (0, 40, 80, 120):
        broker.produce("large", values[start : start + 40])
    broker.produce("large", values[160:])
    done = consume("large", "-n", str(len(values)))
    assert done.out.encode() == b"".join(value + b"\n" for value in values)


def test_record_data_sends_no_escape_sequences_to_a_terminal(broker: Broker, topic: str) -> None:
    broker.produce(topic, ["\x1b]0;title\x07ä\t\xff".encode()])
    with Terminal("consume", "-t", topic, "-g", topic, "-n", "11") as terminal:
        assert terminal.end() == 0
        assert "\N{REPLACEMENT CHARACTER}]0;title\N{REPLACEMENT CHARACTER}ä" in terminal.text
        assert "\x1b" not in terminal.text


def test_silence_of_a_group_at_the_end_is_explained(broker: Broker, topic: str) -> None:
    done = kshare("consume", "-t", topic, "-g", f"late-{topic}", "--timeout-ms", "3000")
    assert done.code == 0
    assert f"group late-{topic} is at the end of {topic}. A new group starts there" in done.err
    assert f"kshare groups reset-offsets late-{topic} --topic {topic} --to-earliest --execute" in done.err


@pytest.mark.parametrize("words", [["--timeout-ms", "300"], ["-n", "1"], ["--interactive"], ["--json"]])
def test_misspelt_topic_is_refused_with_a_suggestion(topic: str, words: list[str]) -> None:
    misspelt = topic.replace("orders", "oders")
    done = kshare("consume", "-t", topic, "-t", misspelt, "-g", topic, *words)
    assert_refused(done, 1, f"there is no topic {misspelt}; did you mean ")
    assert topic in done.err
    assert f"kshare topics create {misspelt}" in done.err


def test_unknown_topic_is_refused_without_a_suggestion() -> None:
    done = kshare("consume", "-t", "xyzzy", "--timeout-ms", "300")
    assert_refused(done, 1, "there is no topic xyzzy: create it with kshare topics create xyzzy")


def test_invalid_topic_name_is_refused() -> None:
    done = kshare("consume", "-t", "a/b", "--timeout-ms", "300")
    assert_refused(done, 2, "--topic a/b: not the name of a topic; use letters")


def test_keys_decide_each_record(broker: Broker, run: Kshare) -> None:
    """Leases are renewed while it waits at the prompt: the lock lasts one second, the wait is longer."""
    broker.create_topic("asked")
    settings = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "1000"}
    broker.set_group_config("asked", settings)
    broker.produce("asked", [b"value %d" % number for number in range(6)])
    with Terminal("consume", "-t", "asked", "-g", "asked", "--interactive") as terminal:
        for number, key, response in ((0, "a", "accepted"), (1, "j", "rejected"), (2, "r", "released")):
            shown = terminal.until("[q]uit? ")
            assert f"asked[0]@{number}" in shown
            assert "delivery 1" in shown
            assert f"value {number}\n" in shown
            terminal.type(key)
            terminal.until(f"{response}\n")
        assert "asked[0]@2" in terminal.until("[q]uit? ")
        terminal.type("n")
        assert "renewed: locked for 1 s more" in terminal.until("[q]uit? ")
        renewals = broker.call(lambda: broker.state.clock.now())
        while broker.call(lambda: broker.state.clock.now()) < renewals + 2500:
            sleep(0.05)
        terminal.type("?")
        assert "'?' isn't one of these keys\n" in terminal.until("[q]uit? ")
        terminal.type("a")
        terminal.until("accepted\n")
        terminal.until("[q]uit? ")
        terminal.type("q")
        terminal.until("kshare: 5 records shown: 2 accepted, 1 rejected, 2 released\n")
        assert terminal.end() == 0
    assert left(run, "asked")[0][0] == 3


def test_ctrl_c_at_the_prompt_restores_the_terminal(topic: str) -> None:
    with Terminal("consume", "-t", topic, "-g", topic, "-i") as terminal:
        before = terminal.mode()
        terminal.until("[q]uit? ")
        assert terminal.mode() != before
        terminal.type("\x03")
        terminal.until("1 record shown: 1 released\n")
        assert terminal.end() == 130
        assert terminal.mode() == before


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        ([], 2, "--topic"),
        (["-t", "x", "--reject", "--release"], 2, "exclude each other"),
        (["-t", "x", "--json", "-f", "%s"], 2, "exclude each other"),
        (["-t", "x", "--json", "--property", "print.key=true"], 2, "exclude each other"),
        (["-t", "x", "-f", "%q"], 2, "unknown field %q"),
        (["-t", "x", "--property", "print.kez=true"], 2, "did you mean 'print.key'"),
        (["-t", "x", "--value-deserializer", "lonk"], 2, "did you mean 'long'"),
        (["-t", "x", "-X", "auto.offset.reset=earliest"], 2, "share.auto.offset.reset"),
        (["-t", "x", "-X", "nonsense"], 2, "should be name=value"),
        (["-t", "x", "-n", "0"], 2, "--max-messages"),
        (["-t", "x", "-g", ""], 2, "the group name must not be empty"),
    ],
)
def test_errors_are_reported_on_one_line(run: Kshare, words: list[str], code: int, reason: str) -> None:
    assert_refused(run("consume", *words), code, reason)


def test_bootstrap_servers_and_group_come_from_a_file(
    broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KSHARE_BOOTSTRAP_SERVER")
    file = tmp_path / "consumer.properties"
    file.write_text(f"bootstrap.servers={broker.bootstrap}\ngroup.id={topic}\nclient.id=file\n")
    done = kshare("consume", "-t", topic, "--config", str(file), "-X", "client.id=me", "-n", "1")
    assert (done.code, done.out) == (0, "value 0\n")


def test_prompt_says_that_an_old_broker_cannot_renew_locks() -> None:
    with Broker(release="4.1", topics={"old": 1}) as old:
        old.set_group_config("old", {"share.auto.offset.reset": "earliest"})
        old.produce("old", [b"x"])
        with Terminal("consume", "-t", "old", "-g", "old", "-i", "-n", "1", "-b", old.bootstrap) as terminal:
            terminal.until("[q]uit? ")
            terminal.type("n")
            assert "this broker can't renew locks (Kafka 4.2 and later can)" in terminal.until("[q]uit? ")
            terminal.type("a")
            terminal.until("kshare: 1 record shown: 1 accepted\n")
            assert terminal.end() == 0
