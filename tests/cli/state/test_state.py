"""`kshare state`: the state topic of an embedded cluster, its log segments, and how both are drawn."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kshare import ConsumerOptions, sync
from kshare.cli.state.view import lines
from kshare.monitor.picture import Picture
from kshare.protocol.messages import DescribeShareGroupOffsetsRequest
from kshare.state.share_records import SharePartitionKey, SharePartitionState, StateRange, StoredState
from kshare.testing import Broker
from tests.cli.running import DEADLINE, Kshare, Piped, assert_refused, kshare, without_colours
from tests.cli.terminals import Terminal, on_terminal

GROUP = "shippers"
WHERE = SharePartitionKey(GROUP, bytes(16), 3)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The group has decided on offsets 0 to 3 of eight: 1 was released, 3 rejected, the others accepted."""
    with Broker(data_dir=tmp_path_factory.mktemp("state"), topics={"orders": 1}) as broker:
        broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        broker.produce("orders", [b"%d" % number for number in range(8)])
        settle(broker)
        yield broker


@pytest.fixture(autouse=True)
def _where(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSHARE_BOOTSTRAP_SERVER", broker.bootstrap)


def settle(broker: Broker, count: int = 4) -> None:
    words = {1: "release", 3: "reject"}
    options: ConsumerOptions = {
        "acknowledgement": "explicit",
        "max_records": 1,
        "acquire": "records",
    }
    with sync.ShareConsumer(broker.bootstrap, group=GROUP, topics=["orders"], **options) as consumer:
        seen: set[int] = set()
        for record in consumer:
            if len(seen) == count:
                break
            getattr(record, words.get(record.offset, "accept") if not record.redelivered else "accept")()
            seen.add(record.offset)
        consumer.commit()


@pytest.mark.lengthy
def test_share_partition_is_shown_as_drawing_and_as_json(broker: Broker, run: Kshare) -> None:
    (form,) = json.loads(run("state", GROUP, "--json").out)
    (described,) = json.loads(run("groups", "describe", GROUP, "--json").out)[0]["offsets"]
    assert (form["group"], form["topic"], form["partition"]) == (GROUP, "orders", 0)
    assert (form["start_offset"], form["lag"]) == (described["start_offset"], described["lag"])
    assert form["end_offset"] == 8
    assert form["lag"] == sum(
        range_["last"] - range_["first"] + 1 for range_ in form["ranges"] if range_["state"] == "available"
    )
    done = run("state", GROUP)
    head, bar, *_, legend, _ = done.out.splitlines()
    assert head == f"{GROUP}  orders[0]  start {form['start_offset']}  end 8  lag {form['lag']}"
    assert bar.split()[0] == str(form["start_offset"])
    assert bar.split()[2] == "7"
    assert legend.startswith("# acknowledged")
    assert run("state", "--topic", "orders:0").out == done.out
    assert run("state").out == done.out
    verbose = run("state", GROUP, "-v").out
    assert "leader epoch 0" in verbose
    assert f"{form['ranges'][-1]['last']}" in verbose


def test_history_shows_every_state_record(run: Kshare) -> None:
    entries = [json.loads(line) for line in run("state", GROUP, "--history", "--json").out.splitlines()]
    assert entries[0]["kind"] == "snapshot"
    assert {entry["kind"] for entry in entries} == {"snapshot", "update"}
    said = [range_["state"] for entry in entries for range_ in entry["said"]]
    assert {"acknowledged", "archived", "available"} <= set(said)
    (form,) = json.loads(run("state", GROUP, "--json").out)
    assert entries[-1]["start_offset"] == form["start_offset"]
    day, first, *_ = run("state", GROUP, "--history").out.splitlines()
    assert day.endswith("(UTC)")
    assert f"{GROUP} orders[0]  snapshot" in first


def test_log_segments_show_the_same_state(broker: Broker, run: Kshare, tmp_path: Path) -> None:
    assert broker._data_dir is not None
    segments = sorted(Path(broker._data_dir).glob("logs/*.log"))  # including other topics
    assert segments
    words = [word for path in segments for word in ("--file", str(path))]
    (form,) = json.loads(run("state", "--json", *words).out)
    (live,) = json.loads(run("state", GROUP, "--json").out)
    assert (form["topic"], form["end_offset"], form["lag"]) == (None, None, None)
    for name in ("topic_id", "start_offset", "state_epoch", "updates"):
        assert form[name] == live[name]
    assert form["ranges"] == [range_ for range_ in live["ranges"] if range_["deliveries"]]
    other = tmp_path / "other"
    other.write_bytes(b"no log at all" * 10)
    done = run("state", "--file", str(other))
    assert (done.code, done.out) == (1, "")
    assert "is it a log segment?" in done.err


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["nobody"], 1, "no state is stored for group nobody"),
        ([GROUP, "-t", "returns"], 1, "no state is stored for group shippers in these topics"),
        (["--file", "no-such-file"], 1, "no-such-file: No such file"),
        (["--file", "x", "--follow"], 1, "--follow needs a cluster"),
        (["--file", "x", "-t", "orders"], 1, "leave --topic out"),
        (["-t", "orders:x"], 2, "partitions are numbers"),
    ],
)
def test_errors_are_reported_on_one_line(run: Kshare, words: list[str], code: int, reason: str) -> None:
    assert_refused(run("state", *words), code, reason)


def test_cluster_without_the_state_topic(run: Kshare) -> None:
    with Broker() as fresh:
        assert run("state", "-b", fresh.bootstrap, "--json").out == "[]\n"
        assert run("state", "-b", fresh.bootstrap).out == "no state is stored\n"


@pytest.mark.lengthy
def test_follow_in_a_pipe_and_on_a_terminal(broker: Broker) -> None:
    with (
        Piped("state", GROUP, "--follow", "--json") as reader,
        Terminal("state", GROUP, "--follow") as terminal,
    ):
        before = json.loads(reader.line())
        terminal.until(f"end {before['end_offset']}")
        broker.produce("orders", [b"8"])
        assert json.loads(reader.line())["end_offset"] == before["end_offset"] + 1
        terminal.until(f"end {before['end_offset'] + 1}")
        terminal.type("\x03")
        assert terminal.end() == 130
        reader.close()
        broker.produce("orders", [b"9"])
        assert reader.end() == (141, b"")


@pytest.mark.lengthy
def test_follow_shows_a_topic_and_a_group_that_are_created_later() -> None:
    has_looked = threading.Event()
    with Broker() as fresh:
        fresh.faults.add(DescribeShareGroupOffsetsRequest, change=lambda _: has_looked.set())
        with Piped("state", "packers", "--follow", "--json", "-b", fresh.bootstrap) as reader:
            assert has_looked.wait(DEADLINE)  # the first reading finds neither
            fresh.create_topic("returns")
            fresh.set_group_config("packers", {"share.auto.offset.reset": "earliest"})
            fresh.produce("returns", [b"0", b"1"])
            with sync.ShareConsumer(fresh.bootstrap, group="packers", topics=["returns"]) as consumer:
                next(iter(consumer)).accept()
            found = json.loads(reader.line())
            assert (found["topic"], found["end_offset"]) == ("returns", 2)


@pytest.mark.lengthy
@pytest.mark.parametrize("columns", [80, 200])
def test_output_fits_the_terminal(columns: int) -> None:
    for words in ([], ["-v"], ["--history"]):
        done = on_terminal("state", GROUP, *words, columns=columns)
        assert done.code == 0
        assert "\x1b[" in done.out
        assert max(map(len, without_colours(done.out).splitlines())) <= columns


@pytest.mark.lengthy
def test_pipes_get_no_colours() -> None:
    assert "\x1b[" not in kshare("state", GROUP).out


# --- the drawing


def drawn(
    ranges: list[tuple[int, int, StoredState, int]], start: int, end: int | None, width: int = 80
) -> list[str]:
    state = SharePartitionState(start, tuple(StateRange(*range_) for range_ in ranges), 0, 0, 0, -1)
    picture = Picture(WHERE, "orders", state, end)
    return [
        "".join(text for text, _ in line)
        for line in lines(picture, width, 0.0, is_wrapped=True, is_detailed=False)
    ]


MIXED = [
    (10, 11, StoredState.ACKNOWLEDGED, 1),
    (12, 12, StoredState.ARCHIVED, 5),
    (14, 15, StoredState.AVAILABLE, 2),
    (16, 16, StoredState.AVAILABLE, 12),
]


def test_one_character_per_offset() -> None:
    assert drawn(MIXED, 10, 20) == [
        "shippers  orders[3]  start 10  end 20  lag 7",
        "    10 ##x.22+... 19",
        "    2 acknowledged  1 archived  4 acquired or not delivered yet  3 available again",
    ]


def test_character_for_many_offsets_shows_the_least_settled() -> None:
    _, bar, _ = drawn([(0, 999_999, StoredState.ACKNOWLEDGED, 1)], 0, 2_000_000)
    signs = bar.split()[1]
    assert len(bar) <= 80
    assert set(signs) == {"#", "."}
    assert abs(signs.count("#") - signs.count(".")) <= 2
    settled = [(0, 499_999, StoredState.ACKNOWLEDGED, 1), (500_001, 999_999, StoredState.ARCHIVED, 1)]
    held = [settled[0], (500_000, 500_000, StoredState.AVAILABLE, 3), settled[1]]
    assert drawn(held, 0, 1_000_000)[1].split()[1].count("3") == 1


def test_drawing_without_known_offsets() -> None:
    assert drawn([], -1, 5) == [
        "shippers  orders[3]  start not decided yet  end 5",
        "    nothing was settled or released yet",
    ]
    assert drawn([], 5, 5) == ["shippers  orders[3]  start 5  end 5  lag 0", "    nothing after the start"]
    assert drawn(MIXED, 10, None)[0] == "shippers  orders[3]  start 10"
    assert drawn(MIXED, 10, None)[1] == "    10 ##x.22+ 16"


def test_a_stall_is_said_below_the_drawing() -> None:
    picture = Picture(WHERE, "orders", SharePartitionState(1, (), 0, 0, 0, -1), 9)
    stall = "orders[3]: 4 records wait from offset 1 on, and nothing was settled"
    found = lines(picture, 80, 0.0, is_wrapped=False, is_detailed=False, stall=stall)
    text = "\n".join("".join(part for part, _ in line) for line in found)
    assert "    ! 4 records wait from offset 1 on, and nothing was settled" in text
